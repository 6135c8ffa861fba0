"""Builds the library: python setup.py build_ext --inplace"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="outboard-example-kernels",
    ext_modules=[CppExtension("example_kernels", ["kernels.cpp"])],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
