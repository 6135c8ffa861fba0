// Scatters each value of a plane to an index of a larger plane of zeros. One work-item per plane,
// because indices may repeat: values are added, or the last one is stored.

__kernel void plane_scatter(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(plane)
  for (ob_index i = plane * inputs; i < (plane + 1) * inputs; ++i) {
    const ob_index location = ob_checked_index(indices[i], outputs);
    if (location < 0) {
      OB_REPORT
      continue;
    }
    const ob_index to = plane * outputs + location;
#if ADDS
    out_store(to, (V)out_load(to) + (V)source_load(i));
#else
    out_store(to, source_load(i));
#endif
  }
}
