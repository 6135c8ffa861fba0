// im2col, columns of the blocks of images. Shapes: images (n, channels, height, width), columns (n,
// channels * elements of a kernel, blocks). Lists have the values along y and along x.

#if !INVERSE

__kernel void im2col(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index block = i % (rows * columns);
  const ob_index rest = i / (rows * columns);
  const ob_index kernel_x = rest % kernel_size.at[1];
  const ob_index kernel_y = rest / kernel_size.at[1] % kernel_size.at[0];
  const ob_index plane = rest / kernel_size.at[1] / kernel_size.at[0];
  const ob_index y = block / columns * stride.at[0] - padding.at[0] + kernel_y * dilation.at[0];
  const ob_index x = block % columns * stride.at[1] - padding.at[1] + kernel_x * dilation.at[1];
  const int inside = y >= 0 && y < height && x >= 0 && x < width;
  out_store(i, inside ? self_load((plane * height + y) * width + x) : (V)(0));
}

#else

// The inverse of im2col: each pixel sums its elements of all blocks in a fixed order.

__kernel void col2im(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index x = i % width + padding.at[1];
  const ob_index y = i / width % height + padding.at[0];
  const ob_index plane = i / width / height;
  V total = (V)(0);
  for (ob_index kernel_y = 0; kernel_y < kernel_size.at[0]; ++kernel_y) {
    const ob_index from_y = y - kernel_y * dilation.at[0];
    if (from_y < 0 || from_y % stride.at[0] != 0 || from_y / stride.at[0] >= rows) continue;
    for (ob_index kernel_x = 0; kernel_x < kernel_size.at[1]; ++kernel_x) {
      const ob_index from_x = x - kernel_x * dilation.at[1];
      if (from_x < 0 || from_x % stride.at[1] != 0 || from_x / stride.at[1] >= columns) continue;
      const ob_index of = (plane * kernel_size.at[0] + kernel_y) * kernel_size.at[1] + kernel_x;
      total += self_load((of * rows + from_y / stride.at[0]) * columns + from_x / stride.at[1]);
    }
  }
  out_store(i, total);
}

#endif
