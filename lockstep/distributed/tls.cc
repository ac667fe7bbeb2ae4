#include "lockstep/distributed/tls.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "lockstep/distributed/address.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using CertificateStore = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;

struct Setting {
  const char* variable;
  std::string path, text;

  std::string named() const { return fmt::format("{}='{}'", variable, path); }
};

[[noreturn]] void refuse(const std::string& why) { throw_error(ErrorCode::invalid_argument, "initialize", "{}", why); }

std::string from_environment(const std::string& given, const char* variable) {
  const char* text = std::getenv(variable);
  return !given.empty() || text == nullptr ? given : text;
}

void read(Setting& s) {
  errno = 0;
  std::ifstream file(s.path);
  std::ostringstream text;
  text << file.rdbuf();
  s.text = text.str();
  if (!file || s.text.empty())
    throw_error(ErrorCode::io, "initialize", "{} can't be read: {}; it has to be a PEM file", s.named(),
                file.is_open() ? "it is empty or no file" : std::strerror(errno));
}

Bio memory(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

std::vector<Certificate> certificates(const std::string& text) {
  std::vector<Certificate> result;
  Bio bio = memory(text);
  while (X509* x = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) result.emplace_back(x);
  ERR_clear_error();
  return result;
}

std::string one_line(const X509_NAME* name) {
  Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* data = nullptr;
  long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}
std::string subject(X509* x) { return one_line(X509_get_subject_name(x)); }
std::string issuer(X509* x) { return one_line(X509_get_issuer_name(x)); }

bool carries(X509* x, const std::string& name) {
  return X509_check_host(x, name.data(), name.size(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, nullptr) == 1;
}
std::string names_of(X509* x) {
  auto* all = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x, NID_subject_alt_name, nullptr, nullptr));
  std::string names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* n = sk_GENERAL_NAME_value(all, i);
    if (n->type != GEN_DNS) continue;
    names += names.empty() ? "" : ", ";
    names.append(reinterpret_cast<const char*>(ASN1_STRING_get0_data(n->d.dNSName)), ASN1_STRING_length(n->d.dNSName));
  }
  GENERAL_NAMES_free(all);
  return names.empty() ? subject(x) : names;
}

CertificateStore store_of(const std::vector<Certificate>& authorities) {
  CertificateStore store(X509_STORE_new());
  for (const Certificate& ca : authorities) X509_STORE_add_cert(store.get(), ca.get());
  ERR_clear_error();
  return store;
}

// "" or why the chain is not good for `purpose`.
std::string verdict(X509_STORE* store, const std::vector<Certificate>& chain, int purpose) {
  STACK_OF(X509)* between = sk_X509_new_null();
  for (std::size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  Verification context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store, chain.front().get(), between);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  bool good = X509_verify_cert(context.get()) == 1;
  std::string why = good ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  sk_X509_free(between);
  ERR_clear_error();
  return why;
}

int no_password(char*, int, int, void*) { return -1; }

void check(const Setting& cert, const Setting& key, const Setting& ca, const std::string& name) {
  auto chain = certificates(cert.text);
  if (chain.empty()) refuse(cert.named() + " holds no PEM certificate (-----BEGIN CERTIFICATE-----)");
  auto authorities = certificates(ca.text);
  if (authorities.empty()) refuse(ca.named() + " holds no PEM certificate (-----BEGIN CERTIFICATE-----)");
  Key secret(PEM_read_bio_PrivateKey(memory(key.text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!secret) refuse(key.named() + " holds no PEM private key that is not encrypted (-----BEGIN PRIVATE KEY-----)");
  X509* own = chain.front().get();
  if (X509_check_private_key(own, secret.get()) != 1) {
    ERR_clear_error();
    refuse(fmt::format("{} is not the private key of the certificate in {}", key.named(), cert.named()));
  }
  CertificateStore store = store_of(authorities);
  for (int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
    std::string why = verdict(store.get(), chain, purpose);
    if (!why.empty())
      refuse(
          fmt::format("the certificate in {} does not pass with {}: {}; it is issued by '{}', the CA file begins with "
                      "'{}'. It has to be in date, issued by the gang's CA, and good for client and server.",
                      cert.named(), ca.named(), why, issuer(own), subject(authorities.front().get())));
  }
  if (!carries(own, name))
    refuse(
        fmt::format("the certificate in {} is for '{}', not for '{}': give it that name as subjectAltName DNS:{}, or "
                    "set LOCKSTEP_TLS_NAME, the same on every process, to a name that all certificates have",
                    cert.named(), names_of(own), name, name));
}

// A connected socket with time-outs; -1: nobody answers.
int dial(const Endpoint& endpoint, std::chrono::milliseconds timeout) {
  Address address = parse_address(endpoint.numeric, "initialize");
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0) return -1;
  int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval patience{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // of connect() too
  if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    ::close(fd);
    fd = -1;
  }
  ::freeaddrinfo(found);
  return fd;
}

// What TLS's alert says, if the last error is one.
std::string alert() {
  unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_SSL || ERR_GET_REASON(error) < SSL_AD_REASON_OFFSET) return "";
  const char* text = ERR_reason_error_string(error);
  return text == nullptr ? "an alert" : text;
}

// OpenSSL writes to sockets without MSG_NOSIGNAL.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    constexpr timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

// One attempt at TLS as gRPC makes it.
std::string attempt(int fd, const std::optional<Tls>& tls) {
  static constexpr unsigned char h2[] = {2, 'h', '2'};
  Context context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_alpn_protos(context.get(), h2, sizeof h2);
  std::vector<Certificate> authorities, chain;
  CertificateStore store;
  if (tls) {
    chain = certificates(tls->certificate);
    Key key(PEM_read_bio_PrivateKey(memory(tls->key).get(), nullptr, no_password, nullptr));
    SSL_CTX_use_certificate(context.get(), chain.front().get());
    for (std::size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context.get(), chain[i].get());
    SSL_CTX_use_PrivateKey(context.get(), key.get());
    store = store_of(certificates(tls->ca));
  }
  Session session(SSL_new(context.get()));
  SSL_set_fd(session.get(), fd);
  if (tls) SSL_set_tlsext_host_name(session.get(), tls->name.c_str());
  ERR_clear_error();
  bool shaken = SSL_connect(session.get()) == 1;
  std::string refused = alert();
  bool closed = false;
  if (Certificate theirs(SSL_get1_peer_certificate(session.get())); theirs) {
    if (!tls)
      return "it demands TLS, and this process has no certificate: set LOCKSTEP_TLS_CERT, LOCKSTEP_TLS_KEY and "
             "LOCKSTEP_TLS_CA as on the coordinator";
    std::vector<Certificate> shown;
    STACK_OF(X509)* sent = SSL_get_peer_cert_chain(session.get());
    for (int i = 0; i < sk_X509_num(sent); ++i) {
      X509_up_ref(sk_X509_value(sent, i));
      shown.emplace_back(sk_X509_value(sent, i));
    }
    std::string why = shown.empty() ? "" : verdict(store.get(), shown, X509_PURPOSE_SSL_SERVER);
    if (!why.empty())
      return fmt::format(
          "its certificate is issued by '{}' and does not pass with LOCKSTEP_TLS_CA: {}; every process "
          "needs a certificate of the same CA",
          issuer(theirs.get()), why);
    if (!carries(theirs.get(), tls->name))
      return fmt::format(
          "its certificate is for '{}', not for '{}': set the same LOCKSTEP_TLS_NAME everywhere, to a "
          "name that all certificates have",
          names_of(theirs.get()), tls->name);
  } else if (tls && !shaken && refused.empty() && ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL &&
             ERR_GET_REASON(ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return "it does not speak TLS: it was started without LOCKSTEP_TLS_CERT, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_CA, "
           "which this process has, or is another program";
  }
  if (shaken) {  // a server of TLS 1.3 looks at the certificate after that
    char byte;
    ERR_clear_error();
    int n = SSL_read(session.get(), &byte, 1);
    if (n <= 0) refused = alert();
    int how = n > 0 ? SSL_ERROR_NONE : SSL_get_error(session.get(), n);
    closed = n <= 0 &&
             (how == SSL_ERROR_ZERO_RETURN || how == SSL_ERROR_SSL || (how == SSL_ERROR_SYSCALL && errno != EAGAIN));
  }
  if (tls && (closed || !refused.empty()))
    return fmt::format(
        "it refuses this process's certificate ({}), which is issued by '{}': every process needs a "
        "certificate of the CA that the coordinator has as LOCKSTEP_TLS_CA",
        refused.empty() ? "it closed the connection" : refused, issuer(chain.front().get()));
  return "";
}

std::mutex process_mutex;
std::optional<Tls> of_process;

}  // namespace

std::optional<Tls> load_tls(const TlsFiles& given) {
  Setting files[] = {{"LOCKSTEP_TLS_CERT", from_environment(given.cert, "LOCKSTEP_TLS_CERT"), ""},
                     {"LOCKSTEP_TLS_KEY", from_environment(given.key, "LOCKSTEP_TLS_KEY"), ""},
                     {"LOCKSTEP_TLS_CA", from_environment(given.ca, "LOCKSTEP_TLS_CA"), ""}};
  std::string set, missing;
  for (const Setting& s : files) {
    std::string& list = s.path.empty() ? missing : set;
    list += (list.empty() ? "" : ", ") + std::string(s.variable);
  }
  if (set.empty()) return std::nullopt;
  if (!missing.empty())
    refuse(
        fmt::format("TLS is half set: {} is given, {} is not; give all three (or the options' tls.cert, tls.key, "
                    "tls.ca), or none",
                    set, missing));
  std::string name = from_environment(given.name, "LOCKSTEP_TLS_NAME");
  if (name.empty()) name = "lockstep";
  for (Setting& s : files) read(s);
  check(files[0], files[1], files[2], name);
  return Tls{files[0].text, files[1].text, files[2].text, name};
}

std::string tls_trouble(const Endpoint& endpoint, const std::optional<Tls>& tls, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds pause{50};
  WithoutSigpipe scope;
  std::string why;
  for (int attempts = 0; attempts < 2; ++attempts) {  // a coordinator that ends just now would look the same once
    if (attempts > 0) std::this_thread::sleep_for(pause);
    int fd = dial(endpoint, timeout);
    if (fd < 0) return "";
    why = attempt(fd, tls);
    ERR_clear_error();
    ::close(fd);
    if (why.empty()) break;
  }
  return why;
}

void set_process_tls(std::optional<Tls> tls) {
  std::lock_guard lock(process_mutex);
  of_process = std::move(tls);
}
std::optional<Tls> process_tls() {
  std::lock_guard lock(process_mutex);
  return of_process;
}

}  // namespace lockstep::distributed
