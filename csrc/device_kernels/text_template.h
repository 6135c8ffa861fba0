// Texts with marks, a part of Mustache: {{name}} stands for a text, {{#name}}...{{/name}} for a
// repetition per entry of a list, {{^name}}...{{/name}} for what stands where it has none,
// {{! ...}} for nothing. Names are looked up in the entry of a list, then in what is around it.
// Where one of the last three is alone on a line, the line goes; a text that ends with a line
// brings no second end of it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace outboard {

struct TextValues {
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<TextValues>> lists;

  // A list as a condition: one entry or none.
  void set_flag(const std::string& name, bool holds) { lists[name].resize(holds ? 1 : 0); }
};

// Raises an internal error for a name that is not there, or a list that does not end.
std::string render(const std::string& text, const TextValues& values);

}  // namespace outboard
