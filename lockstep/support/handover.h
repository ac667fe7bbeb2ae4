// Objects pass through gRPC from one thread to another in an order that ThreadSanitizer can't see. give() before gRPC
// gets one, take() where it comes back. Nothing without ThreadSanitizer. For the files that touch gRPC, which
// are compiled without it.
#pragma once

#ifdef LOCKSTEP_THREAD_SANITIZER
extern "C" {
void __tsan_acquire(void* tag);
void __tsan_release(void* tag);
}
#endif

namespace lockstep {

#ifdef LOCKSTEP_THREAD_SANITIZER
inline char handover_tag = 0;
inline void give() { __tsan_release(&handover_tag); }
inline void take() { __tsan_acquire(&handover_tag); }
#else
inline void give() {}
inline void take() {}
#endif

}  // namespace lockstep
