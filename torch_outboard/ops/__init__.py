"""The operator tables: data from which kernels are made. Read at the first use of a device."""
