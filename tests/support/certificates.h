// Certificates for tests of TLS, which `openssl` makes.
#pragma once

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "lockstep/support/tls.h"

namespace lockstep {

inline std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A CA in a directory that goes with it: ca.pem, and NAME.pem and NAME.key for each certificate.
class Authority {
 public:
  Authority() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-ca-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=test authority' -keyout " +
        path("ca.key") + " -out " + path("ca.pem"));
  }
  ~Authority() { std::filesystem::remove_all(directory_); }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // With `name` as subjectAltName.
  Tls issue(const std::string& file, const std::string& name = "lockstep", int days = 2) const {
    std::ofstream(path("ext")) << "subjectAltName=DNS:" << name << "\n";
    run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=a process' -keyout " + path(file + ".key") +
        " -out " + path("csr"));
    run("x509 -req -in " + path("csr") + " -CA " + path("ca.pem") + " -CAkey " + path("ca.key") +
        " -CAcreateserial -days " + std::to_string(days) + " -extfile " + path("ext") + " -out " + path(file + ".pem"));
    return {file_text(path(file + ".pem")), file_text(path(file + ".key")), file_text(path("ca.pem")), name};
  }
  std::string path(const std::string& file) const { return directory_ + "/" + file; }

 private:
  static void run(const std::string& what) {
    if (std::system(("openssl " + what + " >/dev/null 2>&1").c_str()) != 0)
      throw std::runtime_error("openssl " + what + " failed");
  }
  std::string directory_;
};

// One that all processes of a test's gang share.
inline const Tls& gang_certificate() {
  static const Tls tls = Authority().issue("process");
  return tls;
}

}  // namespace lockstep
