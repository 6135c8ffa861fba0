// What a driver says about a device, looked at before anybody relies on it.
#pragma once

#include <outboard/driver.h>

namespace outboard {

// The properties of a device, with the driver's zeros replaced by what they stand for. Raises for
// those that make no sense, and for a driver that writes past the struct. What is not UTF-8 in
// texts for people becomes '?', with a warning.
ob_device_properties checked_properties(const ob_driver& table, int32_t device);

}  // namespace outboard
