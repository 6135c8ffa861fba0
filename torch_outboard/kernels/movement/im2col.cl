// im2col, columns of the blocks of images. Shapes: images (n, channels, height, width), columns (n,
// channels * kernel_height * kernel_width, blocks).

#if !INVERSE

__kernel void im2col(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index block = i % (rows * columns);
  const ob_index rest = i / (rows * columns);
  const ob_index kernel_x = rest % kernel_width;
  const ob_index kernel_y = rest / kernel_width % kernel_height;
  const ob_index plane = rest / kernel_width / kernel_height;
  const ob_index y = block / columns * stride_y - padding_y + kernel_y * dilation_y;
  const ob_index x = block % columns * stride_x - padding_x + kernel_x * dilation_x;
  const int inside = y >= 0 && y < height && x >= 0 && x < width;
  out_store(i, inside ? self_load((plane * height + y) * width + x) : (V)(0));
}

#else

// The inverse of im2col: each pixel sums its elements of all blocks in a fixed order.

__kernel void col2im(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index x = i % width + padding_x;
  const ob_index y = i / width % height + padding_y;
  const ob_index plane = i / width / height;
  V total = (V)(0);
  for (ob_index kernel_y = 0; kernel_y < kernel_height; ++kernel_y) {
    const ob_index from_y = y - kernel_y * dilation_y;
    if (from_y < 0 || from_y % stride_y != 0 || from_y / stride_y >= rows) continue;
    for (ob_index kernel_x = 0; kernel_x < kernel_width; ++kernel_x) {
      const ob_index from_x = x - kernel_x * dilation_x;
      if (from_x < 0 || from_x % stride_x != 0 || from_x / stride_x >= columns) continue;
      const ob_index of = (plane * kernel_height + kernel_y) * kernel_width + kernel_x;
      total += self_load((of * rows + from_y / stride_y) * columns + from_x / stride_x);
    }
  }
  out_store(i, total);
}

#endif
