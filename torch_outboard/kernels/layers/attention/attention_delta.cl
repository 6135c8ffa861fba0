// The sum of each row of gradient * result. The scores' gradient is the probabilities' gradient
// minus this. Needs attention_tiles.cl before it.

#define OFFSET_IN(tensor, item)                                 \
  ((item) / queries / heads * tensor##_layout.stride[0] +       \
   (item) / queries % heads * tensor##_layout.stride[1] +       \
   (item) % queries * tensor##_layout.stride[2])
#ifdef STRIDED_GRADIENT  // grad_out_layout exists
#define OFFSET_IN_GRADIENT(item) OFFSET_IN(grad_out, item)
#define GRADIENT_STEP grad_out_layout.stride[3]
#else
#define OFFSET_IN_GRADIENT(item) ((item) * HEAD)
#define GRADIENT_STEP 1
#endif
#define ADD_DELTA(sum, gradient, from, e)                  \
  sum += (V)grad_out_load((gradient) + (e) * GRADIENT_STEP) * \
         (V)out_load((from) + (e) * out_layout.stride[3]);
#if HAS_grad_logsumexp
#define DELTA(sum, item) ((sum) - (V)grad_logsumexp_load(item) / LN2)
#else
#define DELTA(sum, item) (sum)
#endif

#if OB_LOCAL == 1

__kernel void delta_of_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(item) {
    const ob_index from = OFFSET_IN(out, item), gradient = OFFSET_IN_GRADIENT(item);
    V sum = 0;
    int e = 0;
    if (out_layout.stride[3] == 1 && GRADIENT_STEP == 1) {
      T sums = (T)(0);
      for (; e + W <= HEAD; e += W) {
        sums += grad_out_load_vector(gradient + e) * out_load_vector(from + e);
      }
      sum = OB_SUM(sums);
    }
    for (; e < HEAD; ++e) ADD_DELTA(sum, gradient, from, e)
    delta_store(item, DELTA(sum, item));
  }
}

#else

__kernel void delta_of_rows(OB_PARAMETERS) {
  OB_BEGIN
  OB_MEMORY
  OB_LOCATION
  OB_FOR_GROUPS(group) {
    V sums[TALL];
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const ob_index item = min(group * ROWS + SUM_ROW(r), all_rows - 1);
      const ob_index from = OFFSET_IN(out, item), gradient = OFFSET_IN_GRADIENT(item);
      sums[r] = 0;
      for (int e = across; e < HEAD; e += ACROSS) ADD_DELTA(sums[r], gradient, from, e)
    }
    COMBINE_ROWS(sums, BOTH_ADDED)
    UNROLLED for (int r = 0; r < TALL; ++r) {
      const ob_index item = group * ROWS + SUM_ROW(r);
      if (WORKS && across == 0 && item < all_rows) delta_store(item, DELTA(sums[r], item));
    }
  }
}

#endif
