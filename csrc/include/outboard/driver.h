/*
 * The driver contract of torch_outboard.
 *
 * A driver is one table of functions. Whoever fills it in (in C or in anything
 * that can produce C function pointers) gets a complete PyTorch device. This
 * header needs no PyTorch, no C++ and no other file of the project.
 *
 * How a driver is found: a shared library exports
 *
 *     const ob_driver *ob_driver_table(void);
 *
 * or a table is registered in process before the first use of the device.
 * `dlopen` returns the library that is loaded already for a second file with the
 * same SONAME, or for a second name of the same file: two versions of a driver in
 * one process need different SONAMEs, or none, and different files.
 *
 * Versions. The table starts with the version of the header that the driver was
 * compiled with. A driver of another major version is refused; one of any minor
 * version works, older or newer. The major version changes when an existing
 * field or function changes its meaning, the minor one when something is added.
 *
 * Growth. What is added stands at the end of its struct, and the table is such a
 * struct. Every struct that crosses the boundary starts with its `struct_size`;
 * whoever allocates it sets the size, and the other side touches only the fields
 * that the size covers. (Arguments of a launch are an array: `argument_bytes` of
 * the launch is their size.) What a struct does not reach counts as zero, which
 * always means what was the case before the field was there; what a table does
 * not reach counts as NULL, "not implemented". The parameters of a function never
 * change: what creates something takes them in a struct, and what is called often
 * takes them one by one and gets a successor at the end of the table if it ever
 * needs more.
 *
 * Context. Every function gets `context` of the table first, whatever it is. It
 * is for drivers with state, several of which may live in one library; others
 * leave it NULL and ignore it. A table that wraps another one passes it on.
 *
 * Optional. A field marked (optional) may be NULL; its comment says what
 * happens then. All others must be there.
 *
 * Preconditions. The caller promises what a comment says of arguments, and the
 * driver may rely on it: handles are alive, ranges lie within one allocation, sizes
 * and patterns are as described. Pointers are not NULL, results included, unless a
 * comment says "may be NULL" or "0 where". A promise that is marked (checked) is
 * checked by the driver as well: it returns OB_INVALID_ARGUMENT, keeps a message and
 * changes nothing. Device indices are (checked) in every function. A driver that
 * checks more returns the same; messages are free in their words.
 *
 * Status. Every call returns an ob_status. On anything but OB_OK and
 * OB_NOT_READY the driver keeps a message for the calling thread, which
 * `last_error` returns. A driver never aborts the process, never prints, and
 * never throws.
 *
 * Threads. Unless a comment says otherwise, any function may be called from any
 * thread at any time, several at once, also on the same queue; the order of work
 * on a queue is then the order in which the calls returned. No function may
 * take the Python interpreter lock, except those of the group "code", which may.
 *
 * Blocking. "Does not wait" means: does not wait for work on a queue.
 *
 * Fork. The table is not used in a forked child of a process that initialized
 * the driver; the kit sees to that.
 */
#ifndef OUTBOARD_DRIVER_H
#define OUTBOARD_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OB_VERSION_MAJOR 2u
#define OB_VERSION_MINOR 3u

/* ---- Status ------------------------------------------------------------- */

typedef int32_t ob_status;
enum {
  OB_OK = 0,
  /* The answer "not yet" of queue_query and event_query; not an error. */
  OB_NOT_READY = 1,
  /* Not enough device or pinned memory. The kit empties its cache and retries,
   * then raises torch.OutOfMemoryError. */
  OB_OUT_OF_MEMORY = 2,
  /* An argument is wrong: unknown device, address, queue, event, size. */
  OB_INVALID_ARGUMENT = 3,
  /* This driver or this device cannot do it. Raised as NotImplementedError. */
  OB_UNSUPPORTED = 4,
  /* The source of a program does not compile. Raised with the build log. */
  OB_BUILD_FAILED = 5,
  /* The device is gone or unusable until device_reset or, without that function,
   * until the process restarts. Every call that gives it work, waits for work or
   * creates something on it answers this from then on; what gives back goes on
   * to work. Nothing is pending on a lost device. */
  OB_DEVICE_LOST = 6,
  /* Anything else, such as work that failed on a device that is as usable as
   * before. */
  OB_ERROR = 7
};

/* Whether a struct that came from the other side reaches to the end of `field`:
 * fields that were added after version 2.0 are looked at only then. */
#define OB_COVERS(pointer, field)                                             \
  ((size_t)((const char*)(&(pointer)->field + 1) - (const char*)(pointer)) <= \
   (pointer)->struct_size)

/* ---- Handles ------------------------------------------------------------ */

/* A location in device memory. `address + offset` is legal everywhere inside one
 * allocation. It need not be an address that the host can touch (see
 * ob_host_access), but it never equals the address of other host memory: a
 * driver whose interface has handles reserves a range of addresses for each
 * allocation and translates. 0 is never a valid address, and no argument of a launch:
 * an operand that is absent comes as any address of the device. With
 * OB_ADDRESSING_POINTER a driver may translate addresses at a launch as well, but only
 * those of OB_ARGUMENT_ADDRESS: nothing of the kit hides an address in a value, in
 * memory or in a source. Kernels compare no addresses and add only offsets within one
 * allocation. */
typedef uint64_t ob_address;

typedef struct ob_queue_t* ob_queue;
typedef struct ob_event_t* ob_event;
typedef struct ob_program_t* ob_program;
typedef struct ob_kernel_t* ob_kernel;
typedef struct ob_graph_t* ob_graph;
typedef struct ob_communicator_t* ob_communicator;

/* ---- Devices ------------------------------------------------------------ */

/* How kernels receive memory. */
typedef int32_t ob_addressing;
enum {
  /* An ob_address is what a kernel dereferences. */
  OB_ADDRESSING_POINTER = 0,
  /* A kernel receives (handle, offset): for each OB_ARGUMENT_ADDRESS the driver
   * passes two kernel arguments in `launch`, the memory object and a ulong
   * offset in bytes. */
  OB_ADDRESSING_HANDLE = 1
};

/* What the host may do with an ob_address. */
typedef int32_t ob_host_access;
enum {
  /* Nothing: data moves by copies alone. */
  OB_HOST_ACCESS_NONE = 0,
  /* An ob_address is a valid host pointer whenever no work on any queue uses
   * it, with nothing to call. */
  OB_HOST_ACCESS_COHERENT = 1
};

/* What a device is; informative. */
typedef int32_t ob_device_kind;
enum { OB_DEVICE_OTHER = 0, OB_DEVICE_CPU = 1, OB_DEVICE_GPU = 2, OB_DEVICE_ACCELERATOR = 3 };

/* Bits of ob_device_properties.dtypes: what kernels of this device can compute
 * on, and what its library calls may be offered. Nothing says what a device can
 * store: storing and copying works for every dtype everywhere, it is only bytes.
 * A device whose programs are compiled with the dialect for clang
 * (torch_outboard/dialects/clang) claims all dtypes up to OB_DTYPE_UINT64: the dialect
 * computes float16 and bfloat16 by float32 where the processor cannot. It has work
 * groups of one work-item (max_work_group_size 1), and claims as local_memory the
 * bytes that its launches allocate for a work group: 65536 is enough for all kernels
 * of the kit. */
enum {
  OB_DTYPE_BOOL = 1u << 0,
  OB_DTYPE_UINT8 = 1u << 1,
  OB_DTYPE_INT8 = 1u << 2,
  OB_DTYPE_INT16 = 1u << 3,
  OB_DTYPE_INT32 = 1u << 4,
  OB_DTYPE_INT64 = 1u << 5,
  OB_DTYPE_FLOAT16 = 1u << 6,
  OB_DTYPE_BFLOAT16 = 1u << 7,
  OB_DTYPE_FLOAT32 = 1u << 8,
  OB_DTYPE_FLOAT64 = 1u << 9,
  OB_DTYPE_COMPLEX64 = 1u << 10,
  OB_DTYPE_COMPLEX128 = 1u << 11,
  OB_DTYPE_UINT16 = 1u << 12,
  OB_DTYPE_UINT32 = 1u << 13,
  OB_DTYPE_UINT64 = 1u << 14,
  /* Of one byte, for library calls: the kit's own kernels do not compute on them. */
  OB_DTYPE_FLOAT8_E4M3FN = 1u << 15,
  OB_DTYPE_FLOAT8_E5M2 = 1u << 16,
  OB_DTYPE_FLOAT8_E4M3FNUZ = 1u << 17,
  OB_DTYPE_FLOAT8_E5M2FNUZ = 1u << 18,
  OB_DTYPE_FLOAT8_E8M0FNU = 1u << 19
};

/* Bits of ob_device_properties.features. */
enum {
  /* Any memory of the host may be passed as an ob_address: results of host
   * kernels become device memory without a copy. */
  OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY = 1u << 0,
  /* `launch` records the events `start` and `end` of ob_launch. */
  OB_FEATURE_LAUNCH_EVENTS = 1u << 1,
  /* (since 2.1) Programs may define MATRIX_UNITS: float16 and bfloat16 are multiplied
   * by the instructions in torch_outboard/kernels/products/matrix_units.cl. */
  OB_FEATURE_MATRIX_UNITS = 1u << 2,
  /* (since 2.1) Those programs may define WARPGROUPS as well. */
  OB_FEATURE_WARPGROUPS = 1u << 3,
  /* (since 2.1) The compiler keeps on disk what it compiled, and `program_binary` compiles
   * anew: it is called when a user asks for it, not after launches or at exit. */
  OB_FEATURE_COMPILER_CACHE = 1u << 4
};

typedef struct ob_device_properties {
  size_t struct_size;      /* set by the caller */
  char name[128];          /* for people; UTF-8, zero-terminated */
  char vendor[64];         /* for people; UTF-8, zero-terminated */
  char driver_version[64]; /* part of the key under which binaries are kept */
  ob_device_kind kind;
  ob_addressing addressing;
  ob_host_access host_access;
  uint32_t dtypes;                 /* OB_DTYPE_* */
  uint32_t features;               /* OB_FEATURE_* */
  uint64_t total_memory;           /* bytes */
  uint64_t max_allocation;         /* bytes in one `allocate`, <= total_memory; 0: total_memory */
  uint32_t alignment;              /* a power of two; allocations start at multiples; 0: 64 */
  uint32_t compute_units;          /* cores, multiprocessors; 0: unknown */
  uint32_t preferred_vector_width; /* of float32 in kernels; 0: the kit chooses by `kind` */
  uint32_t max_work_group_size;    /* 0: no code can be run */
  uint32_t local_memory;           /* bytes of a work group; launches that need more are refused */
  uint32_t subgroup_size;          /* for people who write kernels; 0: no sub-groups */
  int32_t least_priority;          /* of queues; larger is less urgent, like CUDA's */
  int32_t greatest_priority;       /* <= least_priority; equal: one priority */
  /* The language of programs is OpenCL C. For a compiler of another dialect of C
   * this text, put before every source, makes it one by macros; NULL for none.
   * Static; UTF-8. */
  const char* source_prelude;
  /* (since 2.1) Bytes that memory_map deals in, a power of two that `alignment` divides; looked at
   * where there is memory_map. */
  uint64_t mapping_granularity;
} ob_device_properties;

/* Bits of ob_device_state.known. */
enum {
  OB_STATE_UTILIZATION = 1u << 0,
  OB_STATE_MEMORY_UTILIZATION = 1u << 1,
  OB_STATE_TEMPERATURE = 1u << 2,
  OB_STATE_POWER = 1u << 3,
  OB_STATE_CLOCK = 1u << 4
};

/* How a device is doing. */
typedef struct ob_device_state {
  size_t struct_size;
  uint32_t known;            /* OB_STATE_*: which of the following are filled in */
  double utilization;        /* percent of a recent time in which the device worked */
  double memory_utilization; /* percent of it in which memory was read or written */
  double temperature;        /* degrees Celsius */
  double power;              /* watts */
  double clock;              /* MHz */
} ob_device_state;

/* ---- Memory ------------------------------------------------------------- */

/* Bits of ob_allocation.flags. */
enum {
  /* memory_export will be asked for this memory; set only where there is that
   * function. */
  OB_ALLOCATION_SHAREABLE = 1u << 0
};

typedef struct ob_allocation {
  size_t struct_size;
  int32_t device;
  uint64_t bytes; /* > 0 (checked) */
  uint32_t flags; /* (since 2.1) OB_ALLOCATION_* */
} ob_allocation;

/* What another process needs to use memory of this one: `bytes` and `data` as
 * they are, and the descriptor, which the system turns into one of that process
 * (SCM_RIGHTS). */
typedef struct ob_memory_handle {
  size_t struct_size;
  int32_t descriptor;     /* an open file of this process, closed on exec; >= 0 */
  uint64_t bytes;         /* of the memory */
  unsigned char data[64]; /* for the driver of the other process */
} ob_memory_handle;

typedef struct ob_host_allocation {
  size_t struct_size;
  uint64_t bytes; /* > 0 (checked) */
} ob_host_allocation;

/* ---- Queues ------------------------------------------------------------- */

typedef struct ob_queue_description {
  size_t struct_size;
  int32_t device;
  int32_t priority; /* between the device's limits (checked) */
} ob_queue_description;

/* ---- Events ------------------------------------------------------------- */

/* Bits of ob_event_description.flags. */
enum {
  /* The event is for event_elapsed and event_time, which others refuse (checked). */
  OB_EVENT_TIMING = 1u << 0
};

typedef struct ob_event_description {
  size_t struct_size;
  int32_t device;
  uint32_t flags; /* OB_EVENT_* */
} ob_event_description;

/* ---- Code --------------------------------------------------------------- */

typedef struct ob_program_source {
  size_t struct_size;
  int32_t device;
  const char* source;  /* OpenCL C, after the device's prelude */
  const char* options; /* of OpenCL's compilers, such as "-D N=4"; never NULL */
} ob_program_source;

/* What program_binary gave, in this process or an earlier one. */
typedef struct ob_program_image {
  size_t struct_size;
  int32_t device;
  const void* data;
  uint64_t bytes;
} ob_program_image;

typedef int32_t ob_argument_kind;
enum {
  OB_ARGUMENT_ADDRESS = 0, /* `address`: memory of the queue's device */
  OB_ARGUMENT_VALUE = 1,   /* `value`, `size` > 0 bytes, copied by the call: a number, a
                            * vector or a struct */
  OB_ARGUMENT_LOCAL = 2    /* `size` bytes of local memory */
};

typedef struct ob_argument {
  ob_argument_kind kind;
  uint32_t size;
  ob_address address;
  const void* value;
} ob_argument;

typedef struct ob_launch {
  size_t struct_size;
  ob_kernel kernel;
  uint32_t dimensions; /* 1, 2 or 3 */
  uint64_t global[3];  /* work items, > 0; a multiple of `local`. No dimension has a limit
                        * below 2^31: a device with lower ones splits the launch */
  uint64_t local[3];   /* work items in a work group; always given */
  const ob_argument* arguments;
  uint32_t argument_count;
  uint32_t argument_bytes; /* from one argument to the next: sizeof(ob_argument) of the caller */
  /* (since 2.1, on devices with OB_FEATURE_LAUNCH_EVENTS; both may be NULL) Events
   * with OB_EVENT_TIMING that this launch records: `start` has the time when the
   * kernel began to run, `end` the one when it had ended. Neither happens before
   * the kernel has ended. */
  ob_event start;
  ob_event end;
} ob_launch;

/* Argument `i` of a launch, whose caller may know a longer struct. */
static inline const ob_argument* ob_argument_of(const ob_launch* launch, uint32_t i) {
  return (const ob_argument*)((const char*)launch->arguments + (size_t)i * launch->argument_bytes);
}

/* Limits of one kernel; 0 stands for what the device says. */
typedef struct ob_kernel_attributes {
  size_t struct_size;
  uint32_t max_work_group_size;
  uint32_t local_memory; /* bytes of a work group, besides those of arguments */
} ob_kernel_attributes;

/* ---- Library calls ------------------------------------------------------ */

/* A dense operand of a library call. Descriptions point to their operands, NULL
 * for one that is not there, so that this struct can grow without moving a field
 * of theirs; both live as long as the call. Strides say where transposed,
 * channels-last and broadcast operands lie: there are no flags for these. */
typedef struct ob_tensor {
  size_t struct_size;
  ob_address data; /* of the element at index 0 in every dimension */
  uint32_t dtype;  /* one OB_DTYPE_* bit, also one of the device's `dtypes` */
  uint32_t dimensions;
  int64_t sizes[8];   /* > 0 */
  int64_t strides[8]; /* in elements, >= 0; 0 where the size is 1, and in operands
                       * that are read where elements repeat */
} ob_tensor;

/* What is done to each element of a result before it is stored. */
typedef int32_t ob_activation;
enum {
  OB_ACTIVATION_NONE = 0,
  OB_ACTIVATION_RELU = 1,      /* max(x, 0) */
  OB_ACTIVATION_GELU = 2,      /* x / 2 * (1 + erf(x / sqrt(2))) */
  OB_ACTIVATION_GELU_TANH = 3, /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) */
  OB_ACTIVATION_SILU = 4       /* x / (1 + exp(-x)) */
};

/* Bits of `flags` in the descriptions of library calls. */
enum {
  /* The same call on the same device has to give the same bits each time. */
  OB_LIBRARY_DETERMINISTIC = 1u << 0,
  /* Factors in float32 may be rounded to 11 bits of significand or more. */
  OB_LIBRARY_REDUCED_PRECISION = 1u << 1
};

/* out = activation(alpha * a @ b + beta * added + bias), for each batch.
 *
 * All of `a`, `b`, `out` and `added` have the same dtype and 3 dimensions:
 * (batch, rows, depth), (batch, depth, columns), and (batch, rows, columns) for
 * the last two. No two elements of `out` share memory, and it overlaps neither
 * `a`, `b` nor `bias`.
 *
 * The kit calls twice. With `workspace_query` nothing is computed: the driver
 * stores there how many bytes of workspace it wants (0: none) and answers OB_OK,
 * or OB_UNSUPPORTED if it does not do such a product. What the operands hold may
 * still change. The second call has a workspace of that size; it may answer
 * OB_UNSUPPORTED as well, as long as nothing was written. */
typedef struct ob_matrix_product {
  size_t struct_size;
  const ob_tensor* a;
  const ob_tensor* b;
  const ob_tensor* out;
  /* (may be NULL: not added; what `out` held is then never read, NaN included)
   * Either `out` itself, with the same data and strides: in place, each element
   * is read before it is written. Or memory that `out` does not overlap. */
  const ob_tensor* added;
  /* (may be NULL) A vector, one value for each index of `bias_dimension` of
   * `out`: 1 for rows, 2 for columns. Not together with `added`. */
  const ob_tensor* bias;
  uint32_t bias_dimension;
  ob_activation activation;
  /* Factors, real and imaginary part: the latter is 0 unless the dtype is
   * complex, and the former whole for integers. beta is 1 where `bias` is there. */
  double alpha[2];
  double beta[2];
  /* The least precise dtype of sums, an OB_DTYPE_* bit: OB_DTYPE_FLOAT32 for
   * floating point of 16 and 8 bits, else the dtype of the operands. */
  uint32_t accumulation;
  uint32_t flags; /* OB_LIBRARY_*; a bit that the driver does not know: OB_UNSUPPORTED */
  /* NULL, or where the wanted size goes, see above. */
  uint64_t* workspace_query;
  /* Device memory, aligned as allocations are, for this call on this queue
   * alone: of undefined content, given to others once the work is done. 0 for
   * none. */
  ob_address workspace;
  uint64_t workspace_bytes;
} ob_matrix_product;

typedef int32_t ob_convolution_pass;
enum {
  OB_CONVOLUTION_FORWARD = 0,        /* output from input and weight */
  OB_CONVOLUTION_BACKWARD_INPUT = 1, /* input from output and weight */
  OB_CONVOLUTION_BACKWARD_WEIGHT = 2 /* weight from input and output */
};

/* Convolution in 1 to 3 spatial dimensions; tensors are
 * (batch, channels, spatial...), weights (out channels, in channels / groups,
 * spatial...), all of one dtype, channels-last by their strides. The pass names
 * the operand that is written: it shares memory with no other, and what it held
 * is not read.
 *
 * A transposed convolution is OB_CONVOLUTION_BACKWARD_INPUT of the convolution
 * that it transposes: what it reads is the `output` here and what it writes the
 * `input`, whose sizes say what output padding there is. Its gradients are the
 * other passes. So a driver has nothing to do for it.
 *
 * `workspace_query`, `accumulation` and `flags` as in ob_matrix_product. */
typedef struct ob_convolution {
  size_t struct_size;
  ob_convolution_pass pass;
  uint32_t spatial_dimensions; /* 1, 2 or 3; so many of the values below count */
  const ob_tensor* input;
  const ob_tensor* weight;
  const ob_tensor* output;
  /* (may be NULL, and is in OB_CONVOLUTION_BACKWARD_WEIGHT) A vector that is
   * added to what is written, one value for each of its channels. */
  const ob_tensor* bias;
  int64_t stride[3], padding[3], dilation[3];
  int64_t groups;
  ob_activation activation; /* of what is written */
  uint32_t accumulation;
  uint32_t flags;
  uint64_t* workspace_query;
  ob_address workspace;
  uint64_t workspace_bytes;
} ob_convolution;

/* ---- Communication ------------------------------------------------------ */

/* By what the processes of a communicator know it. One of them makes it, the
 * others get its bytes, by ways that are not the driver's. */
typedef struct ob_communicator_id {
  size_t struct_size;
  unsigned char data[128];
} ob_communicator_id;

typedef struct ob_communicator_description {
  size_t struct_size;
  const ob_communicator_id* id; /* lives as long as the call */
  int32_t device;               /* of this rank: all its memory and queues are this one's */
  uint32_t rank;                /* < ranks; each is taken once */
  uint32_t ranks;               /* > 0 */
} ob_communicator_description;

/* What happens, where each of the ranks has `elements` to give, or to get where
 * each gets other ones. `source` and `destination` do not overlap, unless they
 * are the same address or, where one has the elements of all ranks, the other is
 * this rank's part of it. */
typedef int32_t ob_communication_kind;
enum {
  /* `destination` of each rank: the reduction of all their sources. */
  OB_COMMUNICATION_ALL_REDUCE = 0,
  /* The same for the rank `peer` alone; the others have no destination. */
  OB_COMMUNICATION_REDUCE = 1,
  /* `destination` of each rank: what `source` of the rank `peer` holds, which is
   * the only one with a source. */
  OB_COMMUNICATION_BROADCAST = 2,
  /* `destination` of each rank: the sources of all ranks, ranks * elements. */
  OB_COMMUNICATION_ALL_GATHER = 3,
  /* `source` has ranks * elements, `destination` of a rank its part of their
   * reduction. */
  OB_COMMUNICATION_REDUCE_SCATTER = 4,
  /* `source` goes to the rank `peer`, whose OB_COMMUNICATION_RECEIVE it meets; those between two
   * ranks in their order. */
  OB_COMMUNICATION_SEND = 5,
  OB_COMMUNICATION_RECEIVE = 6
};

/* Floating point of 16 bits is added up in 32 or better, and all ranks get the
 * same bits. Integers wrap around. */
typedef int32_t ob_reduction;
enum {
  OB_REDUCTION_SUM = 0,
  OB_REDUCTION_PRODUCT = 1,
  OB_REDUCTION_MINIMUM = 2,
  OB_REDUCTION_MAXIMUM = 3,
  OB_REDUCTION_AVERAGE = 4 /* the sum divided by the number of ranks */
};

typedef struct ob_communication {
  size_t struct_size;
  ob_communication_kind kind;
  ob_reduction reduction; /* of kinds that reduce */
  uint32_t dtype;         /* one OB_DTYPE_* bit; OB_DTYPE_UINT8 for bytes of anything else */
  uint32_t peer;          /* another rank, or the root, as the kind says */
  uint64_t elements;      /* > 0 */
  ob_address source;      /* 0 where this rank has none */
  ob_address destination; /* 0 where this rank has none */
  uint64_t timeout;       /* milliseconds that this rank waits for others; 0: without end */
} ob_communication;

/* ---- The table ---------------------------------------------------------- */

typedef void (*ob_host_function)(void* argument);

typedef struct ob_driver {
  uint32_t major;     /* OB_VERSION_MAJOR */
  uint32_t minor;     /* OB_VERSION_MINOR */
  size_t struct_size; /* sizeof(ob_driver) as the driver was compiled */

  /* Name of the driver, for people; UTF-8, never NULL, static. */
  const char* name;

  /* First argument of every function; the driver's own, may be NULL. */
  void* context;

  /* The message of the calling thread's last failed call; never NULL, valid
   * until that thread's next call. Touches no lock that a failing call holds. */
  const char* (*last_error)(void* context);

  /* Looks for devices. Called once, before every other function but
   * last_error, not at load time. May be slow. A failure is final. */
  ob_status (*initialize)(void* context);

  /* (optional: nothing is called) Ends everything, in an orderly exit, after
   * all queues were synchronized; memory, queues and events may still be alive
   * and die with it. Called at most once. */
  ob_status (*finalize)(void* context);

  /* Number of devices, constant after initialize. 0 is legal; a new message
   * in last_error may then say why, as half a sentence. */
  ob_status (*device_count)(void* context, int32_t* count);

  /* Fills `properties` (struct_size set by the caller, the rest zero). Constant
   * for the life of the process. */
  ob_status (*device_properties)(void* context, int32_t device, ob_device_properties* properties);

  /* (optional: nothing is known) Fills `state` (struct_size set by the caller,
   * the rest zero). For people and their monitors. */
  ob_status (*device_state)(void* context, int32_t device, ob_device_state* state);

  /* (optional: no) *direct = 1 if copies between two different devices go without
   * memory of the host in between, else 0. */
  ob_status (*peer_access)(void* context, int32_t device, int32_t peer, int32_t* direct);

  /* ---- Memory ---- */

  /* Memory of a device. Does not wait. The kit's caching allocator calls this
   * rarely and with large sizes. The content is undefined. Owned by the caller
   * until `deallocate`. Allocations do not overlap, whatever their device.
   * OB_OUT_OF_MEMORY where the device has no room, more than total_memory included. */
  ob_status (*allocate)(void* context, const ob_allocation* wanted, ob_address* address);

  /* Gives back what `allocate` returned, the start of an allocation. The caller
   * guarantees that no work uses it. Its bytes can be allocated again. */
  ob_status (*deallocate)(void* context, int32_t device, ob_address address);

  /* (optional: total_memory and the kit's own count) Free and total bytes. */
  ob_status (*memory_info)(void* context, int32_t device, uint64_t* free_bytes,
                           uint64_t* total_bytes);

  /* (optional: ordinary memory, and copies from it are still correct) Memory of
   * the host from which transfers are asynchronous. */
  ob_status (*host_allocate)(void* context, const ob_host_allocation* wanted, void** pointer);
  /* (optional: present exactly if host_allocate is) */
  ob_status (*host_deallocate)(void* context, void* pointer);

  /* ---- Queues ---- */

  /* An in-order queue: work starts when all earlier work on the same queue is
   * done. Order between queues comes from events alone. */
  ob_status (*queue_create)(void* context, const ob_queue_description* wanted, ob_queue* queue);
  /* After its work is done; waits for it if need be, and reports a failure like
   * queue_synchronize: the queue is gone all the same. From the start of the call no
   * other call uses the queue, but a device_synchronize may be under way. Events
   * recorded on it stay. */
  ob_status (*queue_destroy)(void* context, ob_queue queue);
  /* OB_OK when all work on the queue is done, else OB_NOT_READY. Does not wait. */
  ob_status (*queue_query)(void* context, ob_queue queue);
  /* Waits for all work that was on the queue when the call began. Reports a
   * failure of asynchronous work on this queue, once; then the queue is as good
   * as new. Whether work behind the failed one still ran is up to the device, and
   * its results are worth nothing; events recorded behind it happen either way,
   * so that no wait lasts for ever. After a failure from which the device cannot
   * recover, this and later calls answer OB_DEVICE_LOST, see there. */
  ob_status (*queue_synchronize)(void* context, ob_queue queue);
  /* (optional: every queue in turn) Waits for all queues of the device. */
  ob_status (*device_synchronize)(void* context, int32_t device);
  /* (optional: the ob_queue itself) The native object behind a queue, for users
   * of the vendor's own libraries. Those reach functions of the driver's library
   * that are not in the table by linking against it or by dlopen of the same
   * file: it is loaded once. */
  ob_status (*queue_native_handle)(void* context, ob_queue queue, void** handle);

  /* ---- Events ---- */

  ob_status (*event_create)(void* context, const ob_event_description* wanted, ob_event* event);
  /* Legal at any time, also while recorded work is pending. Does not wait. */
  ob_status (*event_destroy)(void* context, ob_event event);
  /* The event now stands for all work on `queue` so far. Recording again moves
   * it; waits already enqueued keep the earlier meaning. Does not wait.
   * The queue is of the event's device (checked). */
  ob_status (*event_record)(void* context, ob_event event, ob_queue queue);
  /* Later work on `queue` (of any device) starts when the event has happened.
   * Nothing happens if it was never recorded. Does not wait. */
  ob_status (*event_wait)(void* context, ob_queue queue, ob_event event);
  /* OB_OK if it has happened or was never recorded, else OB_NOT_READY. */
  ob_status (*event_query)(void* context, ob_event event);
  /* Waits until it has happened. */
  ob_status (*event_synchronize)(void* context, ob_event event);
  /* Milliseconds from `start` to `end`, negative if `end` happened first. Both have
   * OB_EVENT_TIMING, were recorded, and are of the same device (checked).
   * OB_NOT_READY while one is pending. */
  ob_status (*event_elapsed)(void* context, ob_event start, ob_event end, double* milliseconds);

  /* ---- Transfers: asynchronous on a queue; do not wait. Host memory stays
   *      valid and unchanged by the host until the queue has passed the copy.
   *      bytes > 0, without another limit than the allocation. Offsets and host
   *      pointers have no alignment. ---- */

  ob_status (*copy_host_to_device)(void* context, ob_queue queue, ob_address destination,
                                   const void* source, uint64_t bytes);
  ob_status (*copy_device_to_host)(void* context, ob_queue queue, void* destination,
                                   ob_address source, uint64_t bytes);
  /* Both on the queue's device; the ranges do not overlap. */
  ob_status (*copy_device_to_device)(void* context, ob_queue queue, ob_address destination,
                                     ob_address source, uint64_t bytes);
  /* (optional: through pinned host memory) Between devices; `queue` belongs to
   * either of them. */
  ob_status (*copy_peer)(void* context, ob_queue queue, int32_t destination_device,
                         ob_address destination, int32_t source_device, ob_address source,
                         uint64_t bytes);
  /* (optional: row by row) `rows` rows of `row_bytes`, both > 0, pitches in bytes and
   * >= row_bytes. Bytes between rows are not written. */
  ob_status (*copy_host_to_device_2d)(void* context, ob_queue queue, ob_address destination,
                                      uint64_t destination_pitch, const void* source,
                                      uint64_t source_pitch, uint64_t row_bytes, uint64_t rows);
  ob_status (*copy_device_to_host_2d)(void* context, ob_queue queue, void* destination,
                                      uint64_t destination_pitch, ob_address source,
                                      uint64_t source_pitch, uint64_t row_bytes, uint64_t rows);
  ob_status (*copy_device_to_device_2d)(void* context, ob_queue queue, ob_address destination,
                                        uint64_t destination_pitch, ob_address source,
                                        uint64_t source_pitch, uint64_t row_bytes, uint64_t rows);
  /* Repeats `pattern` (pattern_bytes: 1, 2, 4, 8 or 16, copied by the call) over
   * `bytes`, a multiple of it. */
  ob_status (*fill)(void* context, ob_queue queue, ob_address destination, const void* pattern,
                    uint32_t pattern_bytes, uint64_t bytes);
  /* (optional: the kit waits for the queue and calls, and `faults` cannot delay
   * work, so that missing waits stay unseen in tests) Calls function(argument)
   * once, on a thread of the driver's, when earlier work on the queue is done;
   * later work waits for it to return. The function calls no driver function but
   * communicator_error. */
  ob_status (*host_callback)(void* context, ob_queue queue, ob_host_function function,
                             void* argument);

  /* ---- Code (all or none of build .. launch; optional: the device runs no
   *      kernels and operators run on the host) ---- */

  /* Compiles a source. On OB_BUILD_FAILED last_error is the compiler's log. May
   * be slow; may take the interpreter lock. */
  ob_status (*program_build)(void* context, const ob_program_source* source, ob_program* program);
  /* (optional: programs are not kept on disk) `data` may be NULL: the size is stored
   * in *bytes. Otherwise *bytes is the capacity of `data`, at least that size; the
   * driver fills `data` and stores in *bytes how many bytes it wrote. */
  ob_status (*program_binary)(void* context, ob_program program, void* data, uint64_t* bytes);
  /* OB_INVALID_ARGUMENT for bytes of another driver or version that the driver can tell
   * from its own; the kit then compiles the source. */
  ob_status (*program_load)(void* context, const ob_program_image* image, ob_program* program);
  /* Before `finalize` at the latest; its kernels may still be alive. */
  ob_status (*program_release)(void* context, ob_program program);
  /* A kernel of a program; used by one thread at a time, kept alive by itself. The
   * program has a kernel of that name (checked). */
  ob_status (*kernel_create)(void* context, ob_program program, const char* name,
                             ob_kernel* kernel);
  ob_status (*kernel_release)(void* context, ob_kernel kernel);
  /* (optional: what the device says) Fills `attributes` (struct_size set by the
   * caller, the rest zero). Asked once per kernel; launches beyond it are refused
   * by the kit. */
  ob_status (*kernel_attributes)(void* context, ob_kernel kernel, ob_kernel_attributes* attributes);
  /* Enqueues a kernel. Arguments are copied. Does not wait. */
  ob_status (*launch)(void* context, ob_queue queue, const ob_launch* launch);

  /* ---- Library calls (each optional: generated kernels or the host do it), on
   *      devices that run code and on those that do not. Asynchronous on the
   *      queue; do not wait. OB_UNSUPPORTED for a case that the library does not
   *      do is no error: nothing was written, and the kit takes the next way.
   *      Any other failure is raised. ---- */

  ob_status (*matrix_product)(void* context, ob_queue queue, const ob_matrix_product* description);
  ob_status (*convolution)(void* context, ob_queue queue, const ob_convolution* description);

  /* ---- Graphs (all or none; optional: no capture on this device) ---- */

  /* From now on work given to `queue` is recorded instead of done. */
  ob_status (*graph_begin)(void* context, ob_queue queue);
  /* Ends recording. The graph owns what it needs but not the memory it uses. */
  ob_status (*graph_end)(void* context, ob_queue queue, ob_graph* graph);
  ob_status (*graph_launch)(void* context, ob_queue queue, ob_graph graph);
  ob_status (*graph_release)(void* context, ob_graph graph);

  /* ---- Since 2.1 (each optional, or each group) ---- */

  /* (optional: event_elapsed since an event of the kit's whose time it knows) When
   * the event happened, in nanoseconds of the host's CLOCK_MONOTONIC, as well as
   * the device can tell. The event has OB_EVENT_TIMING, was recorded and has
   * happened; else as in event_elapsed. */
  ob_status (*event_time)(void* context, ob_event event, uint64_t* nanoseconds);

  /* (optional: the kit copies through pinned memory; both or none) From now on
   * `bytes` of ordinary memory at `pointer` are as good for transfers as memory of
   * host_allocate. The caller keeps them until host_unregister, which gets the same
   * pointer when no work uses them. No byte is registered twice. */
  ob_status (*host_register)(void* context, void* pointer, uint64_t bytes);
  ob_status (*host_unregister)(void* context, void* pointer);

  /* (optional: tensors are sent to other processes only where these can use the
   * host's shared memory as their own; all three or none) Fills `handle`
   * (struct_size set by the caller) for the allocation at `address`, made with
   * OB_ALLOCATION_SHAREABLE, or for an import. The descriptor is the caller's to
   * close. The bytes live as long as the allocation, a descriptor or an import of
   * them in any process, whichever is the last, also after the end of the process
   * that made them. */
  ob_status (*memory_export)(void* context, int32_t device, ob_address address,
                             ob_memory_handle* handle);
  /* The same bytes at an address of `device` in this process, another one than any
   * that they have. Nothing but the order of waits says when writes of the other
   * process can be seen. The descriptor stays the caller's, and can be closed then.
   * OB_INVALID_ARGUMENT for a handle of another driver or of a device that this
   * one cannot share with. */
  ob_status (*memory_import)(void* context, int32_t device, const ob_memory_handle* handle,
                             ob_address* address);
  /* Gives back what memory_import returned. No work uses it. */
  ob_status (*memory_close)(void* context, int32_t device, ob_address address);

  /* (optional: a lost device stays lost until the process restarts) Makes a device
   * usable again, lost or not. The caller has given back its memory, programs,
   * kernels and graphs, and no other call uses it meanwhile. Queues and events stay;
   * pending work is dropped, and events behind it have happened. May be slow.
   * OB_DEVICE_LOST if the device is beyond help. */
  ob_status (*device_reset)(void* context, int32_t device);

  /* (optional: PyTorch's setting `expandable_segments` changes nothing; all four or
   * none) Addresses of a device without memory. `bytes` is a multiple of
   * mapping_granularity here and below, as is the address. Does not wait.
   * Owned by the caller until address_release, which gets the same range when
   * nothing is mapped in it. */
  ob_status (*address_reserve)(void* context, int32_t device, uint64_t bytes, ob_address* address);
  ob_status (*address_release)(void* context, int32_t device, ob_address address, uint64_t bytes);
  /* Puts memory behind addresses of one reserved range that have none. Its content
   * is undefined. To every other function, what is mapped side by side is one
   * allocation. OB_OUT_OF_MEMORY leaves the addresses without memory. Does not wait. */
  ob_status (*memory_map)(void* context, int32_t device, ob_address address, uint64_t bytes);
  /* Takes the memory away from a part of what was mapped, by one call or several. No work
   * uses it. */
  ob_status (*memory_unmap)(void* context, int32_t device, ob_address address, uint64_t bytes);

  /* ---- Since 2.2: communication between processes, or between devices of one
   *      (all or none; optional: torch.distributed communicates by the host) ---- */

  /* A new id, for one communicator. Called by the process of rank 0, which then
   * creates it, too. */
  ob_status (*communicator_id)(void* context, ob_communicator_id* id);
  /* One rank's end of a communicator. May wait for the other ranks, which are
   * creating theirs. OB_UNSUPPORTED if this rank cannot reach the one that made the
   * id, as from another machine: the kit then takes another way on all ranks. */
  ob_status (*communicator_create)(void* context, const ob_communicator_description* wanted,
                                   ob_communicator* communicator);
  /* Pending work ends as by communicator_abort. Does not wait for other ranks. */
  ob_status (*communicator_destroy)(void* context, ob_communicator communicator);
  /* Ends pending work, here and on the other ranks as soon as they can learn of it:
   * no wait goes on. Its results are undefined, communicator_error says
   * so, and later work is passed over. Does not wait. */
  ob_status (*communicator_abort)(void* context, ob_communicator communicator);
  /* OB_OK, or the first failure of work of this communicator, for ever: a rank that
   * ended, did not come in time or came with something else, with rank and kind in
   * last_error, or an abort. Queues do not report these. Does not wait; functions of
   * host_callback may call it. */
  ob_status (*communicator_error)(void* context, ob_communicator communicator);
  /* Enqueues one piece of work, which all ranks (of a message: both) enqueue in the
   * same order. Does not wait. OB_UNSUPPORTED for a combination of kind, reduction
   * and dtype that the driver does not do: the same on all ranks, and nothing was
   * enqueued. */
  ob_status (*communicate)(void* context, ob_queue queue, ob_communicator communicator,
                           const ob_communication* description);
  /* What this thread gives to `communicate` from communication_begin on begins with
   * communication_end, together: messages in it wait for no other of it. If a call
   * of it failed, communication_end enqueues nothing and answers the same. Of one
   * communicator on one queue; not nested. */
  ob_status (*communication_begin)(void* context);
  ob_status (*communication_end)(void* context);

  /* ---- Since 2.3 ---- */

  /* (optional: `check` cannot see what the driver makes of failed work) For tests:
   * enqueues work that fails when the queue reaches it, as a broken program would.
   * Does not wait. OB_UNSUPPORTED where the device cannot survive that. */
  ob_status (*inject_failure)(void* context, ob_queue queue);
} ob_driver;

/* The one symbol a driver's shared library exports. */
#define OB_DRIVER_ENTRY_POINT "ob_driver_table"
typedef const ob_driver* (*ob_driver_entry_point)(void);

/* The symbol of a layer, a library that wraps a driver for tests: returns a table that calls
 * `driver`, and lacks what that lacks. NULL if it cannot wrap the driver; `problem` says why. */
#define OB_LAYER_ENTRY_POINT "ob_wrap_driver"
typedef const ob_driver* (*ob_layer_entry_point)(const ob_driver* driver, const char** problem);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OUTBOARD_DRIVER_H */
