// im2col, columns of the blocks of images. Shapes: images (n, channels, height, width), columns (n,
// channels * kernel_height * kernel_width, blocks).

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
