// An array on one device. Owns the PJRT buffer; the client it came from must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "lockstep/core/dtype.h"
#include "lockstep/pjrt/event.h"

struct PJRT_Buffer;

namespace lockstep::pjrt {

class Device;

// Keeps a buffer's memory from being freed or donated while it lives.
class ExternalReference {
 public:
  ExternalReference() = default;
  ExternalReference(const PJRT_Api* api, PJRT_Buffer* buffer);
  ExternalReference(ExternalReference&& other) noexcept { swap(other); }
  ExternalReference& operator=(ExternalReference&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ExternalReference();

 private:
  void swap(ExternalReference& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(buffer_, other.buffer_);
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}  // takes ownership
  Buffer(Buffer&& other) noexcept : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~Buffer() {
    if (buffer_ != nullptr) destroy();
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* raw() const { return buffer_; }
  PJRT_Buffer* release() { return std::exchange(buffer_, nullptr); }

  DType dtype() const;
  std::span<const std::int64_t> dims() const;  // lives as long as the buffer
  std::size_t size_on_device() const;          // bytes
  int device_id() const;

  // Becomes ready when the contents are there, or fails with the computation's error.
  Event ready() const;
  // Copies the contents, row-major, into `destination`, which must live until the event is ready and have the size of
  // the array (an Error of code `shape` otherwise). A deleted buffer is an Error of code `donated`.
  Event to_host(std::span<std::byte> destination) const;
  Buffer copy_to(const Device& device) const;

  // Frees the memory now; later uses fail with code `donated`.
  void free_memory();
  bool is_deleted() const;

  // The address of the contents, for code that runs where the device's memory is readable (CPU). Hold an
  // ExternalReference while it is used. Blocks until the buffer is ready.
  void* unsafe_pointer() const;
  ExternalReference hold() const { return ExternalReference(api_, buffer_); }

 private:
  void destroy() noexcept;

  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace lockstep::pjrt
