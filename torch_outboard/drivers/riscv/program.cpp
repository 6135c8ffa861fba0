// Programs, kernels and launches.
//
// Programs are compiled by any clang that knows RISC-V into a position-independent ELF file without
// undefined symbols. Files also come from a cache on disk, so nothing in them is trusted.
#include <compiler/compiler.h>
#include <elf.h>

#include "riscv.h"

struct ob_program_t {
  riscv::Device& device;
  std::shared_ptr<const riscv::Image> image;
};

struct ob_kernel_t {
  riscv::Device& device;
  std::shared_ptr<const riscv::Image> image;
  std::string name;
  uint64_t entry;
  std::vector<kernel_parameter> parameters;
};

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
    refuse("is not an ELF file");
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

// ---- Programs

namespace {

ob_program new_program(Device& device, std::string file) {
  const auto place = [&](uint64_t bytes) {
    // A page between programs belongs to none.
    const uint64_t address = device.next_program.fetch_add(bytes + kPage);
    if (address + bytes <= device.space.end) return address;
    fail(OB_OUT_OF_MEMORY, "Device %d has no addresses left for programs.", device.index);
  };
  return new ob_program_t{device, std::make_shared<const Image>(std::move(file), place)};
}

// Appends room to the block of arguments; returns its offset.
uint64_t add(std::string& block, const ob_kernel kernel, uint64_t bytes, uint64_t alignment) {
  const uint64_t offset = (block.size() + alignment - 1) / alignment * alignment;
  const uint64_t limit = kernel->device.space.argument_bytes;
  if (bytes > limit || offset > limit - bytes) {
    fail(OB_INVALID_ARGUMENT, "The arguments of kernel %s take more than %" PRIu64 " bytes.",
         kernel->name.c_str(), limit);
  }
  block.resize(offset + bytes);
  return offset;
}

// The range, the pointers to the arguments, and the arguments.
void add_arguments(Call& call, const ob_launch* launch, const AddressSpace& space) {
  const ob_kernel kernel = launch->kernel;
  std::string& block = call.arguments;
  call.pointers = add(block, kernel, uint64_t{8} * (launch->argument_count + 1), 16);
  for (uint32_t i = 0; i < launch->argument_count; ++i) {
    const ob_argument& argument = *ob_argument_of(launch, i);
    uint64_t pointed = argument.address;
    if (argument.kind == OB_ARGUMENT_ADDRESS && pointed - space.memory > space.memory_bytes) {
      fail(OB_INVALID_ARGUMENT, "Argument %u of kernel %s is not an address of device %d.", i,
           kernel->name.c_str(), kernel->device.index);
    }
    const void* value = argument.kind == OB_ARGUMENT_VALUE ? argument.value : &pointed;
    const uint64_t bytes = argument.kind == OB_ARGUMENT_VALUE ? argument.size : sizeof pointed;
    if (argument.kind == OB_ARGUMENT_LOCAL) {
      pointed = space.arguments + add(block, kernel, argument.size, 128);
    }
    const uint64_t at = add(block, kernel, bytes, 16), pointer = space.arguments + at;
    std::memcpy(block.data() + at, value, bytes);
    std::memcpy(block.data() + call.pointers + 8 * i, &pointer, sizeof pointer);
  }
}

ob_status program_build(const ob_program_source* described, ob_program* program) {
  Device& device = device_at(described->device);
  if (described->source == nullptr) fail(OB_INVALID_ARGUMENT, "The source of a program is NULL.");
  const char* options = described->options == nullptr ? "" : described->options;
  *program = new_program(device, compile(described->source, options));
  return OB_OK;
}

ob_status program_binary(ob_program program, void* data, uint64_t* bytes) {
  const std::string& file = program->image->file;
  if (data != nullptr && *bytes < file.size()) {
    fail(OB_INVALID_ARGUMENT, "The binary has %zu bytes, not %" PRIu64 "; ask for its size first.",
         file.size(), *bytes);
  }
  if (data != nullptr) std::memcpy(data, file.data(), file.size());
  *bytes = file.size();
  return OB_OK;
}

ob_status program_load(const ob_program_image* image, ob_program* program) {
  Device& device = device_at(image->device);
  if (image->data == nullptr) fail(OB_INVALID_ARGUMENT, "The binary of a program is NULL.");
  *program = new_program(device, std::string(static_cast<const char*>(image->data), image->bytes));
  return OB_OK;
}

ob_status program_release(ob_program program) {
  delete program;
  return OB_OK;
}

ob_status kernel_create(ob_program program, const char* name, ob_kernel* kernel) {
  const uint64_t entry = program->image->symbol(std::string("ob_entry_") + name);
  if (entry == 0) fail(OB_INVALID_ARGUMENT, "The program has no kernel named %s.", name);
  const uint64_t at = program->image->symbol(std::string("ob_parameters_") + name);
  const uint32_t count = program->image->words(at, 1)[0];
  const std::vector<uint32_t> words = program->image->words(at + 4, uint64_t{2} * count);
  std::vector<kernel_parameter> parameters(count);
  std::memcpy(parameters.data(), words.data(), count * sizeof(kernel_parameter));
  *kernel = new ob_kernel_t{program->device, program->image, name, entry, std::move(parameters)};
  return OB_OK;
}

ob_status kernel_release(ob_kernel kernel) {
  delete kernel;
  return OB_OK;
}

struct Launch : task {
  Device& device;
  Call call;
};

ob_status run_launch(task* work) {
  try {
    const Launch& launch = *static_cast<Launch*>(work);
    run(launch.device, launch.call);
    return OB_OK;
  } catch (...) {
    return drivers::keep_exception();
  }
}

void destroy_launch(task* work) { delete static_cast<Launch*>(work); }

ob_status launch(ob_queue queue, const ob_launch* launch) {
  const ob_kernel kernel = launch->kernel;
  Device& device = device_at(device_of(queue));
  if (&kernel->device != &device) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s of device %d cannot run on a queue of device %d.",
         kernel->name.c_str(), kernel->device.index, device.index);
  }
  Call call = {kernel->image, kernel->name, kernel->entry, {}, 0};
  item_range range;
  drivers::check(read_launch(launch, kernel->name.c_str(), kernel->parameters.data(),
                             static_cast<uint32_t>(kernel->parameters.size()), &range));
  call.arguments.assign(reinterpret_cast<const char*>(&range), sizeof range);
  add_arguments(call, launch, device.space);
  return enqueue_task(
      queue, new Launch{{1, run_launch, nullptr, destroy_launch}, device, std::move(call)});
}

}  // namespace

void set_program_functions(ob_driver& table) {
  OB_SET(table, program_build);
  OB_SET(table, program_binary);
  OB_SET(table, program_load);
  OB_SET(table, program_release);
  OB_SET(table, kernel_create);
  OB_SET(table, kernel_release);
  OB_SET(table, launch);
}

}  // namespace riscv
