"""The operator tables: data from which engines make kernels. Read at the first use of a device."""
