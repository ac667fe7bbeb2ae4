// Private to the room. A plugin passes work between threads by means that ThreadSanitizer does not see, since the
// plugin is not instrumented. So in a build with it every call into the plugin counts as after all that this thread did
// before, and every return or callback from the plugin as after all earlier calls into it. In other builds these are
// nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_release(void*);
extern "C" void __tsan_acquire(void*);
#endif

namespace lockstep::pjrt {

#ifdef __SANITIZE_THREAD__
inline char handoff_token;
inline void into_plugin() { __tsan_release(&handoff_token); }
inline void out_of_plugin() { __tsan_acquire(&handoff_token); }
#else
inline void into_plugin() {}
inline void out_of_plugin() {}
#endif

}  // namespace lockstep::pjrt
