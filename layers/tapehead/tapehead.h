// SPDX-License-Identifier: MIT
// All of Tapehead in one include.
#pragma once

#include <tapehead/attention.h>
#include <tapehead/check.h>
#include <tapehead/dropout.h>
#include <tapehead/dtype.h>
#include <tapehead/embedding.h>
#include <tapehead/error.h>
#include <tapehead/generate.h>
#include <tapehead/gpt.h>
#include <tapehead/gradcheck.h>
#include <tapehead/indexing.h>
#include <tapehead/layer_norm.h>
#include <tapehead/linear.h>
#include <tapehead/losses.h>
#include <tapehead/module.h>
#include <tapehead/moving_average.h>
#include <tapehead/multi_head_attention.h>
#include <tapehead/npy.h>
#include <tapehead/ops.h>
#include <tapehead/optim.h>
#include <tapehead/positions.h>
#include <tapehead/random.h>
#include <tapehead/rms_norm.h>
#include <tapehead/rotary.h>
#include <tapehead/runtime.h>
#include <tapehead/safetensors.h>
#include <tapehead/schedule.h>
#include <tapehead/self_attention.h>
#include <tapehead/sequential.h>
#include <tapehead/shape.h>
#include <tapehead/softmax.h>
#include <tapehead/tape.h>
#include <tapehead/tensor.h>
#include <tapehead/transformer.h>
