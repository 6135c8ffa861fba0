// The part of matrices on and above (UPPER), or on and below a diagonal; zero elsewhere.

__kernel void triangle(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index column = i % columns;
  const ob_index row = i / columns % rows;
  const int kept = UPPER ? column - row >= diagonal : column - row <= diagonal;
  out_store(ob_place(out_layout, i), kept ? self_load(ob_place(self_layout, i)) : (V)(0));
}
