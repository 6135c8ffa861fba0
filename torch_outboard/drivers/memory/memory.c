/*
 * A device is one range of reserved addresses, and allocations are whole pages in it: first fit.
 * Memory shared with other processes is an unnamed file, mapped over such pages.
 */
#define _GNU_SOURCE
#include <common/failures.h>
#include <common/system.h>
#include <errno.h>
#include <fcntl.h>
#include <queues/queues.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

enum { PINNED_ALIGNMENT = 4096 };

typedef struct allocation {
  uint64_t start; /* bytes from the base of the device */
  uint64_t bytes; /* as requested */
  int file;       /* descriptor, above 2, of the file with the pages; 0: private pages */
} allocation;

typedef struct device {
  char* base;     /* device addresses are [base, base + memory) */
  char* contents; /* the same bytes for the driver; equals base when shared */
  pthread_mutex_t lock;
  allocation* allocations; /* sorted by start */
  size_t count, capacity;
  uint64_t allocated; /* bytes in whole pages */
} device;

static device devices[MAX_DEVICES];
static memory_settings settings; /* the same for all devices */
static int32_t device_count;

/* Reserves addresses; the system provides pages at the first write. */
static char* reserve(uint64_t bytes, int protection) {
  void* memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

ob_status create_memory(const memory_settings* wanted, device_memory* memory) {
  device* created = &devices[device_count];
  settings = *wanted;
  created->contents = reserve(settings.bytes, PROT_READ | PROT_WRITE);
  /* Separate: device addresses are a second range, without access. */
  created->base = settings.shared ? created->contents : reserve(settings.bytes, PROT_NONE);
  pthread_mutex_init(&created->lock, NULL);
  if (created->contents == NULL || created->base == NULL) {
    return fail(OB_OUT_OF_MEMORY, "The host cannot reserve %llu bytes of addresses for a device.",
                (unsigned long long)settings.bytes);
  }
  /* Faster first writes. A hint, which may fail. */
  (void)madvise(created->contents, settings.bytes, MADV_HUGEPAGE);
  device_count++;
  *memory = (device_memory){(ob_address)(uintptr_t)created->base, created->contents};
  return OB_OK;
}

/* The allocation that starts at or before `offset`; NULL if there is none. */
static allocation* find_allocation(const device* owner, uint64_t offset) {
  size_t low = 0, high = owner->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (owner->allocations[middle].start <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? NULL : &owner->allocations[low - 1];
}

/* The allocation that starts at `offset`; NULL if none does. */
static allocation* allocation_at(const device* owner, uint64_t offset) {
  allocation* found = find_allocation(owner, offset);
  return found != NULL && found->start == offset ? found : NULL;
}

static bool insert_allocation(device* owner, size_t i, allocation inserted) {
  if (owner->count == owner->capacity) {
    size_t capacity = owner->capacity == 0 ? 64 : 2 * owner->capacity;
    allocation* larger = realloc(owner->allocations, capacity * sizeof *larger);
    if (larger == NULL) return false;
    owner->allocations = larger;
    owner->capacity = capacity;
  }
  allocation* place = &owner->allocations[i];
  memmove(place + 1, place, (owner->count - i) * sizeof *place);
  *place = inserted;
  owner->count++;
  owner->allocated += whole_pages(inserted.bytes);
  return true;
}

static void remove_allocation(device* owner, allocation* removed) {
  owner->allocated -= whole_pages(removed->bytes);
  owner->count--;
  size_t behind = owner->count - (size_t)(removed - owner->allocations);
  memmove(removed, removed + 1, behind * sizeof *removed);
}

/* Maps the pages of a file over a range; for file 0, private pages of zeros. */
static bool map_pages(const device* owner, uint64_t start, uint64_t size, int file) {
  int kind = file == 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* mapped = mmap(owner->contents + start, size, PROT_READ | PROT_WRITE, kind | MAP_FIXED,
                      file == 0 ? -1 : file, 0);
  if (mapped == MAP_FAILED) return false;
  if (file == 0) (void)madvise(mapped, size, MADV_HUGEPAGE);
  return true;
}

/* Allocates the pages of `file`, or private pages for file 0. */
static ob_status take_pages(int32_t index, uint64_t bytes, int file, ob_address* address) {
  ob_status status = OB_OK;
  device* owner = &devices[index];
  uint64_t size = bytes > settings.bytes ? UINT64_MAX : whole_pages(bytes), start = 0;

  pthread_mutex_lock(&owner->lock);
  size_t i = 0;
  for (; i < owner->count && owner->allocations[i].start - start < size; i++) {
    start = owner->allocations[i].start + whole_pages(owner->allocations[i].bytes);
  }
  if (settings.bytes - start < size) {
    status = fail(OB_OUT_OF_MEMORY,
                  "Device %d has no free range of %llu bytes: %llu of its %llu bytes are in use; "
                  "%s sets the size.",
                  index, (unsigned long long)bytes, (unsigned long long)owner->allocated,
                  (unsigned long long)settings.bytes, settings.name);
  } else if (!insert_allocation(owner, i, (allocation){start, bytes, file})) {
    status = fail(OB_OUT_OF_MEMORY, "The host has no memory for an allocation.");
  } else if (file != 0 && !map_pages(owner, start, size, file)) {
    status = fail(OB_OUT_OF_MEMORY, "%llu bytes of shared memory cannot be mapped: %s.",
                  (unsigned long long)bytes, strerror(errno));
    remove_allocation(owner, &owner->allocations[i]);
  } else {
    *address = (ob_address)(uintptr_t)(owner->base + start);
  }
  pthread_mutex_unlock(&owner->lock);
  return status;
}

/* Moves a descriptor above those of the standard streams; -1 on failure. Closes `file`. */
static int move_descriptor(int file) {
  if (file < 0 || file > STDERR_FILENO) return file;
  int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(file);
  return moved;
}

/* Seals of our files: an access to a truncated file would end the process. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Creates an unnamed file of zeros. */
static ob_status create_file(uint64_t bytes, int* file) {
  *file = move_descriptor(memfd_create("outboard_host", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (*file >= 0 && ftruncate(*file, (off_t)whole_pages(bytes)) == 0 &&
      fcntl(*file, F_ADD_SEALS, SEALS) == 0) {
    return OB_OK;
  }
  ob_status status = fail(OB_OUT_OF_MEMORY, "The host has no %llu bytes of shared memory: %s.",
                          (unsigned long long)bytes, strerror(errno));
  if (*file >= 0) close(*file);
  return status;
}

static ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (wanted->bytes == 0) {
    return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  }
  uint32_t flags = OB_COVERS(wanted, flags) ? wanted->flags : 0;
  bool shareable = (flags & OB_ALLOCATION_SHAREABLE) != 0 && wanted->bytes <= settings.bytes;
  int file = 0;
  if (shareable) status = create_file(wanted->bytes, &file);
  if (status == OB_OK) status = take_pages(wanted->device, wanted->bytes, file, address);
  if (status != OB_OK && file > 0) close(file);
  return status;
}

static ob_status deallocate(void* context, int32_t index, ob_address address) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  device* owner = &devices[index];
  uint64_t offset = address - (uintptr_t)owner->base; /* beyond all for other addresses */

  pthread_mutex_lock(&owner->lock);
  allocation* found = allocation_at(owner, offset);
  if (found == NULL) {
    status = fail(OB_INVALID_ARGUMENT, "0x%llx is not the start of an allocation on device %d.",
                  (unsigned long long)address, index);
  } else if (found->file != 0 && !map_pages(owner, offset, whole_pages(found->bytes), 0)) {
    status = fail(OB_ERROR, "Shared memory cannot be freed: %s.", strerror(errno));
  } else {
    if (found->file != 0) {
      close(found->file);
    } else { /* back to the system */
      (void)madvise(owner->contents + offset, whole_pages(found->bytes), MADV_DONTNEED);
    }
    remove_allocation(owner, found);
  }
  pthread_mutex_unlock(&owner->lock);
  return status;
}

static ob_status memory_export(void* context, int32_t index, ob_address address,
                               ob_memory_handle* handle) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  device* owner = &devices[index];
  uint64_t offset = address - (uintptr_t)owner->base;
  pthread_mutex_lock(&owner->lock);
  const allocation* found = allocation_at(owner, offset);
  bool shared = found != NULL && found->file != 0;
  int file = shared ? fcntl(found->file, F_DUPFD_CLOEXEC, 0) : -1;
  uint64_t bytes = shared ? found->bytes : 0;
  pthread_mutex_unlock(&owner->lock);
  if (!shared) {
    return fail(OB_INVALID_ARGUMENT,
                "0x%llx is not the start of shareable memory on device %d: allocate it with "
                "OB_ALLOCATION_SHAREABLE.",
                (unsigned long long)address, index);
  }
  if (file < 0) return fail(OB_ERROR, "Shared memory cannot be exported: %s.", strerror(errno));
  handle->descriptor = file;
  handle->bytes = bytes;
  memset(handle->data, 0, sizeof handle->data); /* the descriptor says it all */
  return OB_OK;
}

static ob_status memory_import(void* context, int32_t index, const ob_memory_handle* handle,
                               ob_address* address) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  uint64_t bytes = handle->bytes;
  struct stat file_status;
  if (bytes == 0 || bytes > settings.bytes || fcntl(handle->descriptor, F_GET_SEALS) != SEALS ||
      fstat(handle->descriptor, &file_status) != 0 ||
      (uint64_t)file_status.st_size != whole_pages(bytes)) {
    return fail(OB_INVALID_ARGUMENT,
                "Descriptor %d is not shared memory of %llu bytes on a host device.",
                handle->descriptor, (unsigned long long)bytes);
  }
  int file = fcntl(handle->descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (file < 0) return fail(OB_ERROR, "Shared memory cannot be imported: %s.", strerror(errno));
  status = take_pages(index, bytes, file, address);
  if (status != OB_OK) close(file);
  return status;
}

static ob_status memory_close(void* context, int32_t index, ob_address address) {
  return deallocate(context, index, address);
}

static ob_status memory_info(void* context, int32_t index, uint64_t* free_bytes,
                             uint64_t* total_bytes) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  pthread_mutex_lock(&devices[index].lock);
  *free_bytes = settings.bytes - devices[index].allocated;
  *total_bytes = settings.bytes;
  pthread_mutex_unlock(&devices[index].lock);
  return OB_OK;
}

/* Pinned memory. Threads copy from any memory; no hardware needs pages locked in place. */
static ob_status host_allocate(void* context, const ob_host_allocation* wanted, void** pointer) {
  uint64_t bytes = wanted->bytes;
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  if (bytes > PTRDIFF_MAX || posix_memalign(pointer, PINNED_ALIGNMENT, bytes) != 0) {
    return fail(OB_OUT_OF_MEMORY, "The host cannot allocate %llu bytes of pinned memory.",
                (unsigned long long)bytes);
  }
  return OB_OK;
}

static ob_status host_deallocate(void* context, void* pointer) {
  free(pointer);
  return OB_OK;
}

static ob_status host_register(void* context, void* pointer, uint64_t bytes) {
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "0 bytes of memory cannot be registered.");
  return check_host_range(pointer, bytes);
}

static ob_status host_unregister(void* context, void* pointer) {
  return check_host_range(pointer, 1);
}

static bool overlaps(const device* other, uint64_t address, uint64_t bytes) {
  uint64_t base = (uintptr_t)other->base;
  return address < base + settings.bytes && base < address + bytes;
}

ob_status locate(int32_t index, ob_address address, uint64_t bytes, char** contents) {
  if (address == 0 || bytes > UINT64_MAX - address) {
    return fail(OB_INVALID_ARGUMENT, "%llu bytes at address 0x%llx are not a range of memory.",
                (unsigned long long)bytes, (unsigned long long)address);
  }
  for (int32_t i = 0; i < device_count; i++) {
    device* owner = &devices[i];
    if (!overlaps(owner, address, bytes)) continue;
    uint64_t offset = address - (uintptr_t)owner->base;
    pthread_mutex_lock(&owner->lock);
    const allocation* found = find_allocation(owner, offset);
    bool inside =
        found != NULL && bytes <= found->bytes && offset - found->start <= found->bytes - bytes;
    pthread_mutex_unlock(&owner->lock);
    if (i != index || !inside) {
      return fail(OB_INVALID_ARGUMENT,
                  "%llu bytes at 0x%llx do not lie in one allocation of device %d.",
                  (unsigned long long)bytes, (unsigned long long)address, index);
    }
    *contents = owner->contents + offset;
    return OB_OK;
  }
  if (!settings.shared) {
    return fail(OB_INVALID_ARGUMENT, "0x%llx is not an address of device %d.",
                (unsigned long long)address, index);
  }
  *contents = (char*)(uintptr_t)address; /* memory of the host is device memory, too */
  return OB_OK;
}

/* Detects NULL, ranges beyond the last address, and device addresses. */
ob_status check_host_range(const void* pointer, uint64_t bytes) {
  uint64_t address = (uintptr_t)pointer;
  if (pointer == NULL || bytes > UINT64_MAX - address) {
    return fail(OB_INVALID_ARGUMENT, "%llu bytes at %p are not a range of host memory.",
                (unsigned long long)bytes, pointer);
  }
  for (int32_t i = 0; i < device_count && !settings.shared; i++) {
    if (overlaps(&devices[i], address, bytes)) {
      return fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.",
                  pointer, i);
    }
  }
  return OB_OK;
}

void set_memory_functions(ob_driver* table) {
  table->allocate = allocate;
  table->deallocate = deallocate;
  table->memory_info = memory_info;
  table->host_allocate = host_allocate;
  table->host_deallocate = host_deallocate;
  table->host_register = host_register;
  table->host_unregister = host_unregister;
  table->memory_export = memory_export;
  table->memory_import = memory_import;
  table->memory_close = memory_close;
}
