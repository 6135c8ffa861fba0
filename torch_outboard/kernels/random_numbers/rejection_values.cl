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
