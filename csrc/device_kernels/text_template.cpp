#include "device_kernels/text_template.h"

#include <c10/util/Exception.h>

namespace outboard {
namespace {

struct Scope {
  const TextValues& values;
  const Scope* outer;
};

template <class Member>
const auto& find(const Scope* scope, Member member, const std::string& name) {
  for (; scope != nullptr; scope = scope->outer) {
    const auto found = (scope->values.*member).find(name);
    if (found != (scope->values.*member).end()) return found->second;
  }
  TORCH_INTERNAL_ASSERT(false, "the text of a kernel has the mark '", name,
                        "', for which there is no value");
}

// The place behind a mark that ends at `end`: the next line where it has its own.
size_t behind(const std::string& text, size_t begin, size_t end) {
  const bool opens_line = begin == 0 || text[begin - 1] == '\n';
  return opens_line && end < text.size() && text[end] == '\n' ? end + 1 : end;
}

void render(const std::string& text, size_t begin, size_t end, const Scope& scope,
            std::string& result) {
  while (begin < end) {
    const size_t mark = std::min(text.find("{{", begin), end);
    result.append(text, begin, mark - begin);
    if (mark == end) return;
    const size_t close = text.find("}}", mark);
    TORCH_INTERNAL_ASSERT(close != std::string::npos, "a mark of a kernel's text does not end");
    const char kind = text[mark + 2];
    begin = close + 2;
    if (kind == '!') {
      begin = behind(text, mark, begin);
      continue;
    }
    if (kind != '#' && kind != '^') {
      result += find(&scope, &TextValues::texts, text.substr(mark + 2, close - mark - 2));
      if (begin < end && text[begin] == '\n' && result.ends_with('\n')) ++begin;
      continue;
    }
    const std::string name = text.substr(mark + 3, close - mark - 3);
    const size_t inner = behind(text, mark, begin);
    const std::string last = "{{/" + name + "}}";
    const size_t stop = text.find(last, inner);
    TORCH_INTERNAL_ASSERT(stop < end, "the list '", name, "' of a kernel's text does not end");
    begin = behind(text, stop, stop + last.size());
    const std::vector<TextValues>& list = find(&scope, &TextValues::lists, name);
    if (kind == '^') {
      if (list.empty()) render(text, inner, stop, scope, result);
      continue;
    }
    for (const TextValues& entry : list) render(text, inner, stop, {entry, &scope}, result);
  }
}

}  // namespace

std::string render(const std::string& text, const TextValues& values) {
  std::string result;
  render(text, 0, text.size(), {values, nullptr}, result);
  return result;
}

}  // namespace outboard
