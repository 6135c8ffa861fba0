// Faults of library calls: the base gets another description than the caller gave.
#include "broken.h"

#include <set>

using namespace broken;

namespace {

// A description with operands that can be changed.
struct Product {
  explicit Product(const ob_matrix_product* given) : all(*given), a(*given->a), b(*given->b) {
    out = *given->out;
    all.a = &a;
    all.b = &b;
    all.out = &out;
    if (given->added == given->out) all.added = &out;
  }
  ob_matrix_product all;
  ob_tensor a, b, out;
};

void (*change_product)(Product&);
void change_products(ob_driver& table, void (*change)(Product&)) {
  change_product = change;
  table.matrix_product = [](void*, ob_queue queue, const ob_matrix_product* description) {
    Product changed(description);
    change_product(changed);
    return BASE(matrix_product, queue, &changed.all);
  };
}

struct Convolution {
  explicit Convolution(const ob_convolution* given)
      : all(*given), input(*given->input), weight(*given->weight), output(*given->output) {
    all.input = &input;
    all.weight = &weight;
    all.output = &output;
  }
  ob_convolution all;
  ob_tensor input, weight, output;
};

void (*change_convolution)(Convolution&);
void change_convolutions(ob_driver& table, void (*change)(Convolution&)) {
  change_convolution = change;
  table.convolution = [](void*, ob_queue queue, const ob_convolution* description) {
    Convolution changed(description);
    change_convolution(changed);
    return BASE(convolution, queue, &changed.all);
  };
}

void rows_follow_each_other(ob_tensor& tensor) {
  tensor.strides[2] = 1;
  tensor.strides[1] = tensor.sizes[2];
}

}  // namespace

FAULT("out_is_read") {
  change_products(table, [](Product& p) {
    if (p.all.added != nullptr || p.all.bias != nullptr) return;
    p.all.added = &p.out;
    p.all.beta[0] = p.all.beta[1] = 0;  // NaN times 0 is NaN
  });
}
FAULT("alpha_is_ignored") {
  change_products(table, [](Product& p) { p.all.alpha[0] = 1; });
}
FAULT("beta_is_ignored") {
  change_products(table, [](Product& p) { p.all.beta[0] = 1; });
}
FAULT("imaginary_alpha_is_ignored") {
  change_products(table, [](Product& p) { p.all.alpha[1] = 0; });
}
FAULT("batch_stride_is_ignored") {
  change_products(table, [](Product& p) {
    if (p.b.sizes[0] > 1) p.b.strides[0] = p.b.sizes[1] * p.b.sizes[2];
  });
}
FAULT("terms_beyond_64_are_dropped") {
  change_products(table, [](Product& p) {
    if (p.a.sizes[2] > 64) p.a.sizes[2] = p.b.sizes[1] = p.a.sizes[2] - 1;
  });
}
FAULT("transposition_is_ignored") {
  change_products(table, [](Product& p) {
    if (p.a.strides[1] == 1) rows_follow_each_other(p.a);
  });
}
FAULT("leading_dimension_is_ignored") {
  change_products(table, [](Product& p) {
    if (p.out.strides[2] == 1) rows_follow_each_other(p.out);
  });
}
FAULT("last_row_of_64_is_lost") {
  change_products(table, [](Product& p) {
    if (p.a.sizes[1] % 64 != 0 && p.a.sizes[1] > 64) --p.a.sizes[1], --p.out.sizes[1];
  });
}
FAULT("bias_of_the_other_dimension") {
  change_products(table, [](Product& p) { p.all.bias_dimension = 3 - p.all.bias_dimension; });
}
FAULT("activation_is_forgotten") {
  change_products(table, [](Product& p) { p.all.activation = OB_ACTIVATION_NONE; });
}
FAULT("query_computes") {
  table.matrix_product = [](void*, ob_queue queue, const ob_matrix_product* given) {
    const ob_status status = BASE(matrix_product, queue, given);
    if (status == OB_OK && given->workspace_query != nullptr) {
      BASE(fill, queue, given->out->data, "\0", 1, 4);
    }
    return status;
  };
}
FAULT("writes_and_declines") {
  table.matrix_product = [](void*, ob_queue queue, const ob_matrix_product* given) {
    if (given->workspace_query != nullptr || given->out->dtype != OB_DTYPE_COMPLEX64) {
      return BASE(matrix_product, queue, given);
    }
    BASE(fill, queue, given->out->data, "\0", 1, 8);
    return ob_status(OB_UNSUPPORTED);
  };
}
FAULT("products_of_the_first_device_alone") {
  static std::mutex lock;
  static std::set<ob_queue> others;
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    const ob_status status = BASE(queue_create, wanted, queue);
    std::lock_guard guard(lock);
    if (status == OB_OK && wanted->device > 0) others.insert(*queue);
    return status;
  };
  table.matrix_product = [](void*, ob_queue queue, const ob_matrix_product* given) {
    std::lock_guard guard(lock);
    const bool computes = given->workspace_query != nullptr || others.count(queue) == 0;
    return computes ? BASE(matrix_product, queue, given) : ob_status(OB_OK);
  };
}
FAULT("product_waits") {
  table.matrix_product = [](void*, ob_queue queue, const ob_matrix_product* given) {
    const ob_status status = BASE(matrix_product, queue, given);
    return status == OB_OK ? BASE(queue_synchronize, queue) : status;
  };
}

// ---- Convolutions

FAULT("dilation_is_ignored") {
  change_convolutions(table, [](Convolution& c) {
    if (c.all.pass != OB_CONVOLUTION_FORWARD) return;
    for (int64_t& dilation : c.all.dilation) dilation = 1;
  });
}
FAULT("padding_is_ignored") {
  change_convolutions(table, [](Convolution& c) {
    if (c.all.pass != OB_CONVOLUTION_BACKWARD_INPUT) return;
    for (int64_t& padding : c.all.padding) padding = 0;
  });
}
FAULT("channels_last_is_ignored") {
  change_convolutions(table, [](Convolution& c) {
    if (c.all.pass != OB_CONVOLUTION_BACKWARD_WEIGHT || c.input.dimensions != 4) return;
    c.input.strides[3] = 1;
    c.input.strides[2] = c.input.sizes[3];
    c.input.strides[1] = c.input.sizes[3] * c.input.sizes[2];
  });
}
FAULT("bias_of_convolutions_is_ignored") {
  change_convolutions(table, [](Convolution& c) { c.all.bias = nullptr; });
}
