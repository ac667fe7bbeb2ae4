// Random bits from threefry keys, bit for bit as JAX makes them (with jax_threefry_partitionable, its default): any
// element can be computed without the others, so that sharded arrays need no communication.
//
// A key array has dtype key; each element is a pair of 32-bit words, the first in the upper half of a 64-bit integer.
#pragma once

#include <source_location>
#include <utility>

#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive threefry2x32_p, random_seed_p, random_wrap_p, random_unwrap_p, random_split_p, random_fold_in_p,
    random_bits_p;

// The Threefry-2x32 hash with 20 rounds of (x1, x2) under the key (k1, k2); all uint32, broadcast elementwise.
std::pair<Array, Array> threefry2x32(const Array& k1, const Array& k2, const Array& x1, const Array& x2);
// Keys from integers: the words are the upper and lower 32 bits (the upper is 0 for types of 32 bits or fewer).
Array random_seed(const Array& seeds);
// Keys from words, uint32[..., 2], and back.
Array random_wrap(const Array& words);
Array random_unwrap(const Array& keys);
// Each key makes `shape` new ones: the result has shape keys.shape + shape.
Array random_split(const Array& keys, const Shape& shape);
// New keys from keys and data (uint32, broadcast elementwise).
Array random_fold_in(const Array& keys, const Array& data);
// Unsigned integers of 8, 16, 32 or 64 bits, of shape keys.shape + shape.
Array random_bits(const Array& keys, int bit_width, const Shape& shape);

}  // namespace lockstep
