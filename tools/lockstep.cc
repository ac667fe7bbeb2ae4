// The `lockstep` command.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "lockstep/distributed/identity.h"
#include "lockstep/support/error.h"
#include "tools/doctor.h"
#include "tools/launch.h"
#include "tools/plugins.h"

namespace {

using lockstep::tools::LaunchOptions;

using lockstep::tools::DoctorOptions;

// Where and how processes are started, for every command that starts some.
void add_places(CLI::App* command, LaunchOptions& options) {
  command->add_option("-n,--processes", options.processes, "How many processes")->check(CLI::Range(1, 4096));
  command
      ->add_option("--hosts", options.hosts,
                   "Where, over ssh: HOST or HOST:PROCESSES, separated by commas; by default on this machine")
      ->delimiter(',');
  command->add_option("--coordinator", options.coordinator,
                      "How the hosts reach the first one; by default by its name in --hosts");
  command->add_option("--ssh", options.ssh, "The command that reaches a host, with options (default ssh)");
  command
      ->add_option("--env", options.environment,
                   "NAME or NAME=VALUE for the other hosts, besides JAX_*, LOCKSTEP_* and XLA_FLAGS; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--port", options.port, "The coordinator's port; by default a free one")
      ->check(CLI::Range(1, 65535));
}

CLI::App* add_doctor(CLI::App& app, LaunchOptions& places, DoctorOptions& options) {
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Examine a cluster: names, connections, latency and bandwidth of every pair, clocks, versions. "
      "lockstep doctor --hosts A,B, or started in each place by the cluster's own launcher");
  add_places(doctor, places);
  doctor
      ->add_option_function<double>(
          "--timeout",
          [&options](double s) { options.timeout = std::chrono::milliseconds(static_cast<long>(s * 1e3)); },
          "Seconds to wait for all to come (default 30)")
      ->check(CLI::PositiveNumber);
  return doctor;
}

int run_doctor(LaunchOptions& places, const DoctorOptions& options) {
  if (places.hosts.empty() && places.processes == 0) return lockstep::tools::examine(options);
  places.command = {std::filesystem::read_symlink("/proc/self/exe"), "doctor", "--timeout",
                    std::to_string(static_cast<double>(options.timeout.count()) / 1e3)};
  places.prefix = false;
  return lockstep::tools::launch(places);
}

void add_run(CLI::App& app, LaunchOptions& options) {
  CLI::App* run = app.add_subcommand("run",
                                     "Start the processes of a gang, here or on other machines: "
                                     "lockstep run -n 2 -- PROGRAM ARGUMENT...");
  add_places(run, options);
  run->add_option("--restarts", options.restarts, "How often to start the gang again after it has failed (default 0)")
      ->check(CLI::NonNegativeNumber);
  run->add_flag("--recoverable", options.recoverable,
                "Let the others go on when a process other than 0 fails; for programs that go on without it "
                "(JAX_ENABLE_RECOVERABILITY, which this sets)");
  run->add_option("--devices-per-process", options.devices_per_process,
                  "CPU devices of each process (JAX_NUM_CPU_DEVICES); by default the program's own choice")
      ->check(CLI::Range(1, 2048));
  run->add_flag("!--no-prefix", options.prefix, "Pass output on without the process's id before each line");
  run->add_flag("--dry-run", options.dry_run, "Print what would be started, with its environment");
  auto seconds = [&](const char* name, std::chrono::milliseconds& value, const char* text) {
    run->add_option_function<double>(
           name, [&value](double s) { value = std::chrono::milliseconds(static_cast<long>(s * 1e3)); },
           std::string(text) + " (seconds, default " + std::to_string(value.count() / 1000) + ")")
        ->check(CLI::NonNegativeNumber);
  };
  seconds("--linger", options.linger, "How long the others may go on after one process has failed");
  seconds("--grace", options.grace, "How long a process may take to end after SIGTERM, before SIGKILL");
  run->add_option("command", options.command, "The program and its arguments")->required();
  run->positionals_at_end();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("lockstep: multi-controller JAX in C++");
  app.require_subcommand(1);
  LaunchOptions options, places;
  DoctorOptions examination;
  add_run(app, options);
  CLI::App* plugins = app.add_subcommand("plugins", "List the PJRT plugins found here, and why any is rejected");
  CLI::App* doctor = add_doctor(app, places, examination);
  CLI::App* version = app.add_subcommand("version", "Print the version and the build");
  CLI11_PARSE(app, argc, argv);
  try {
    if (version->parsed()) {
      std::printf("lockstep %s\n", lockstep::distributed::build_id().c_str());
      return 0;
    }
    if (plugins->parsed()) return lockstep::tools::list_plugins();
    if (doctor->parsed()) return run_doctor(places, examination);
    return lockstep::tools::launch(options);
  } catch (const lockstep::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
