// Elements kept with a probability, and scaled, and whether they were.

#define USE(i, word)                                                                         \
  {                                                                                          \
    const bool kept = (ulong)word < (((ulong)threshold_high << 16) | (ulong)threshold_low);  \
    out_store(i, input_load(i) * (kept ? scale : 0));                                        \
    mask_store(i, kept ? 1 : 0);                                                             \
  }

__kernel void dropout(OB_PARAMETERS) {
  OB_BEGIN
  FOR_WORDS(count, USE)
}
