// The coordination service with N client threads in one process: registration, barriers, a key-value round trip.
// usage: coordination [N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/service.h"

namespace ld = lockstep::distributed;
using std::chrono::seconds;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double in_parallel(int n, const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  double begin = now();
  for (int i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (auto& t : threads) t.join();
  return now() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 256;
  ld::Service service({.bind_address = "127.0.0.1:0", .num_processes = n});
  std::vector<std::unique_ptr<ld::Client>> clients;
  for (int i = 0; i < n; ++i)
    clients.push_back(std::make_unique<ld::Client>(ld::ClientOptions{
        .address = "127.0.0.1:" + std::to_string(service.port()), .process_id = i, .num_processes = n}));
  std::printf("clients %d register_s %.3f\n", n, in_parallel(n, [&](int i) { clients[i]->connect(); }));
  for (int k = 0; k < 3; ++k) {
    std::string name = "b" + std::to_string(k);
    std::printf("barrier_ms %.1f\n", 1e3 * in_parallel(n, [&](int i) { clients[i]->barrier(name, seconds(60)); }));
  }
  double best = std::numeric_limits<double>::infinity();
  for (int j = 0; j < 50; ++j) {
    double begin = now();
    clients[0]->set("k" + std::to_string(j), "v");
    clients[1 % n]->get("k" + std::to_string(j), seconds(1));
    best = std::min(best, now() - begin);
  }
  std::printf("kv_set_get_us %.1f\n", 1e6 * best);
  std::fflush(stdout);
  std::_Exit(0);
}
