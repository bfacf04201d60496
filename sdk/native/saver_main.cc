// tide-saver FD [LOCK…]: writes what the rank stages. Started by the SDK with its end of a socket
// pair as FD; ends by itself.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/native/saver.h"

int main(int argc, char** argv) {
  int fd = -1;
  const std::string_view text = argc > 1 ? argv[1] : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size()) {
    std::fputs("usage: tide-saver FD [LOCK...]; it is started by the SDK\n", stderr);
    return 2;
  }
  // A checkpoint that is under way outlives the signals that end the training; SIGKILL ends it.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2}) {
    std::signal(signal, SIG_IGN);
  }
  constexpr int kBehindTraining = 10;
  ::setpriority(PRIO_PROCESS, 0, kBehindTraining);
  const tide::Status served =
      tide::sdk::RunSaver(tide::Fd(fd), std::vector<std::string>(argv + 2, argv + argc));
  if (!served) {
    std::fprintf(stderr, "tide-saver: %s\n", served.error().message.c_str());
    return 1;
  }
  return 0;
}
