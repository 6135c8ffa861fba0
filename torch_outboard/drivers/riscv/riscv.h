/*
 * Shared declarations of the RISC-V driver.
 *
 *   device.cpp    settings, devices, and the table
 *   program.cpp   programs, as ELF files and in memory; kernels, launches
 *   unicorn.cpp   the processor: an emulator in this process
 *
 * Failures and settings are those of drivers/common, memory is that of drivers/memory, and queues,
 * events, transfers and graphs are those of drivers/queues. Functions that stand in the table have
 * the contract's names and are described there.
 */
#ifndef OUTBOARD_DRIVERS_RISCV_RISCV_H
#define OUTBOARD_DRIVERS_RISCV_RISCV_H

#include <common/failures.h>
#include <outboard/driver.h>
#include <queues/queues.h>

#include <atomic>
#include <cinttypes>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace riscv {

using drivers::fail;

// Puts the functions of program.cpp into a table.
void set_program_functions(ob_driver& table);

// ---- device.cpp

// The address space of a device's kernels: its memory at the addresses of the contract, and stack,
// arguments and programs elsewhere.
struct AddressSpace {
  uint64_t memory, memory_bytes;
  uint64_t stack, stack_bytes;  // from its lowest address
  uint64_t arguments, argument_bytes;
  uint64_t end;
};

struct Device {
  int32_t index;
  AddressSpace space = {};
  char* contents = nullptr;  // device memory for the driver

  std::mutex processor_mutex = {};
  std::shared_ptr<class Unicorn> processor = {};
  // Addresses of programs that are gone are not given out again.
  std::atomic<uint64_t> next_program = 0;
};

extern std::vector<std::unique_ptr<Device>>& g_devices;  // never destroyed
// Throws if there is no such device.
Device& device_at(int32_t index);

constexpr uint64_t kPage = 4096;
inline uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// ---- program.cpp

// A linked program in the memory of its device, relocated to its address.
class Image {
 public:
  enum Access : uint32_t { kRead = 1, kWrite = 2, kExecute = 4 };
  struct Segment {
    uint64_t offset, bytes;  // in whole pages, from the start of the image
    uint32_t access;
  };

  // Reads an ELF file; `place` finds an address for so many bytes. Throws OB_INVALID_ARGUMENT if it
  // is damaged, or none for this processor.
  Image(std::string elf, const std::function<uint64_t(uint64_t bytes)>& place);
  // The address of a function, 0 if there is none of that name.
  uint64_t symbol(const std::string& name) const;
  // The words at an address. Throws if they are not in the image.
  std::vector<uint32_t> words(uint64_t at, uint64_t count) const;

  std::string file, content;
  std::vector<Segment> segments;
  uint64_t address = 0;

 private:
  std::map<std::string, uint64_t> symbols_;  // offsets
};

// Looks for the compiler. Throws OB_UNSUPPORTED if there is none, or one that is too old.
void load_compiler();
// Identifies compiler and flags, in a few characters.
std::string compiler_key();
// An ELF file of OpenCL C. Throws OB_BUILD_FAILED with the compiler's log.
std::string compile(const char* source, const char* options);

// ---- unicorn.cpp

// A call of a kernel's entry: entry(space.arguments, space.arguments + pointers).
struct Call {
  std::shared_ptr<const Image> image;
  std::string kernel;     // for messages
  uint64_t entry;         // address
  std::string arguments;  // written to space.arguments before the call
  uint64_t pointers;
};

// Runs a call on the device's processor, when that is free. Throws if the call fails; the next one
// gets a new processor.
void run(Device& device, const Call& call);
// Loads the emulator. Throws OB_UNSUPPORTED if there is none, or one of another version.
void load_unicorn(uint64_t time_limit_seconds);

}  // namespace riscv

#endif  // OUTBOARD_DRIVERS_RISCV_RISCV_H
