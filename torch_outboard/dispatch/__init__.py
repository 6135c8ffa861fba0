"""Control of how operators run: fallback policies, placement, and user kernels."""
