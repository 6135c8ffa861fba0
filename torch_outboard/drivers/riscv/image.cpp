// Programs: compiled by any clang that knows RISC-V into a position-independent ELF file without
// undefined symbols, and the same as it lies in memory. Files also come from a cache on disk, so
// nothing in them is trusted.
#include <compiler/compiler.h>
#include <elf.h>

#include "riscv.h"

namespace riscv {
namespace {

constexpr const char* kTarget = "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mno-relax";

// Constant after load_compiler.
compiler::NativeCompiler& g_compiler = *new compiler::NativeCompiler;

// ---- Images

constexpr uint64_t kLargestImage = 256 << 20;

[[noreturn]] void refuse(const char* why) {
  fail(OB_INVALID_ARGUMENT, "The binary of a program %s; build it from source again.", why);
}

bool covers(uint64_t size, uint64_t offset, uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

// The `i`th of structs that begin at `offset`.
template <class T>
T read(const std::string& from, uint64_t offset, uint64_t i = 0) {
  T value;
  if (i > from.size() || !covers(from.size(), offset, (i + 1) * sizeof value)) {
    refuse("is damaged");
  }
  std::memcpy(&value, from.data() + offset + i * sizeof value, sizeof value);
  return value;
}

uint32_t access_of(uint32_t flags) {
  uint32_t access = 0;
  if ((flags & PF_R) != 0) access |= Image::kRead;
  if ((flags & PF_W) != 0) access |= Image::kWrite;
  if ((flags & PF_X) != 0) access |= Image::kExecute;
  return access;
}

}  // namespace

void load_compiler() { g_compiler = compiler::find_for_target(kTarget); }

std::string compiler_key() { return g_compiler.key; }

std::string compile(const char* source, const char* options) {
  return compiler::compile_program(g_compiler, source, options);
}

Image::Image(std::string elf, const std::function<uint64_t(uint64_t)>& place)
    : file(std::move(elf)) {
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
    refuse("is no ELF file");
  }
  const auto header = read<Elf64_Ehdr>(file, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_RISCV ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    refuse("is no position-independent one of a 64-bit RISC-V");
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(file, header.e_phoff, i);
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    const uint64_t start = segment.p_vaddr / kPage * kPage;
    if (!covers(kLargestImage, segment.p_vaddr, segment.p_memsz) || start < content.size() ||
        segment.p_filesz > segment.p_memsz ||
        !covers(file.size(), segment.p_offset, segment.p_filesz)) {
      refuse("is damaged");
    }
    content.resize(whole_pages(segment.p_vaddr + segment.p_memsz));
    std::memcpy(content.data() + segment.p_vaddr, file.data() + segment.p_offset, segment.p_filesz);
    segments.push_back({start, content.size() - start, access_of(segment.p_flags)});
  }
  if (segments.empty()) refuse("is empty");
  address = place(content.size());

  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(file, header.e_shoff, i);
    if (section.sh_type == SHT_RELA) {
      for (uint64_t j = 0; j < section.sh_size / sizeof(Elf64_Rela); ++j) {
        const auto relocation = read<Elf64_Rela>(file, section.sh_offset, j);
        const uint64_t value = address + static_cast<uint64_t>(relocation.r_addend);
        if (ELF64_R_TYPE(relocation.r_info) != R_RISCV_RELATIVE) {
          refuse("needs symbols of another one");
        }
        if (!covers(content.size(), relocation.r_offset, sizeof value)) refuse("is damaged");
        std::memcpy(content.data() + relocation.r_offset, &value, sizeof value);
      }
    } else if (section.sh_type == SHT_DYNSYM) {
      const auto names = read<Elf64_Shdr>(file, header.e_shoff, section.sh_link);
      if (!covers(file.size(), names.sh_offset, names.sh_size)) refuse("is damaged");
      for (uint64_t j = 1; j < section.sh_size / sizeof(Elf64_Sym); ++j) {
        const auto symbol = read<Elf64_Sym>(file, section.sh_offset, j);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.sh_size) continue;
        const char* name = file.data() + names.sh_offset + symbol.st_name;
        symbols_[std::string(name, strnlen(name, names.sh_size - symbol.st_name))] =
            symbol.st_value;
      }
    }
  }
}

uint64_t Image::symbol(const std::string& name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? 0 : address + found->second;
}

std::vector<uint32_t> Image::words(uint64_t at, uint64_t count) const {
  if (at < address || !covers(content.size(), at - address, count * sizeof(uint32_t))) {
    refuse("is damaged");
  }
  std::vector<uint32_t> found(count);
  std::memcpy(found.data(), content.data() + (at - address), count * sizeof(uint32_t));
  return found;
}

}  // namespace riscv
