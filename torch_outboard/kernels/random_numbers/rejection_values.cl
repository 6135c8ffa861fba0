// Values by rejection sampling. Needs philox.cl and rejection.cl before it.

#if HAS_factors

// Shares of gamma variables in the sums of their rows.

__kernel void gamma_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const rejection_draws draws = {(ulong)i, ob_seed, ob_offset};
  const rejection_gamma_parts parts =
      rejection_gamma(self_load(i), philox((ulong)i, ob_seed, ob_offset), draws);
  factors_store(i, parts.factor);
  exponents_store(i, parts.exponent);
}

// One work-item per row, since the order of a sum determines its bits.
__kernel void shares(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index first = row * length, last = first + length;
  double top = exponents_load(first);
  for (ob_index i = first + 1; i < last; ++i) {
    const double exponent = exponents_load(i);
    top = exponent > top ? exponent : top;
  }
  double sum = 0.0;
  for (ob_index i = first; i < last; ++i) {
    const rejection_gamma_parts parts = {factors_load(i), exponents_load(i)};
    const double weight = rejection_gamma_weight(parts, top);
    factors_store(i, weight);
    sum += weight;
  }
  for (ob_index i = first; i < last; ++i) {
    out_store(i, rejection_share(factors_load(i), sum, smallest, largest));
  }
}

#else

// One value per element, of the distribution number DISTRIBUTION.
#define DRAWS(i) (rejection_draws){(ulong)(i), ob_seed, ob_offset}
#define FIRST(i) philox((ulong)(i), ob_seed, ob_offset)

__kernel void rejection_values(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
#if DISTRIBUTION == 0  // Poisson
  const double rate = self_load(i);
  if (rate >= 0.0) {
    out_store(i, rejection_poisson(rate, FIRST(i), DRAWS(i)));
  } else {
    OB_REPORT
  }
#elif DISTRIBUTION == 1  // binomial
  out_store(i, rejection_binomial(count_load(i), prob_load(i), FIRST(i), DRAWS(i)));
#else  // gamma
  out_store(i, rejection_gamma_value(rejection_gamma(self_load(i), FIRST(i), DRAWS(i)), smallest));
#endif
}

#endif
