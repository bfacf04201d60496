#pragma once
// `tide dev`: scheduler, API and one agent, real, with the `tide` program to ask them.

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/daemons/task_place.h"

namespace tide::bench {

class DevCluster {
 public:
  // Returns once its nodes serve; plain processes.   flags: of `tide dev`, more of them.
  explicit DevCluster(const TaskPlace& place,
                      uint32_t nodes = 1,
                      const std::vector<std::string>& flags = {});
  ~DevCluster();
  DevCluster(const DevCluster&) = delete;
  DevCluster& operator=(const DevCluster&) = delete;

  // The file that stands for the node's kernel log.
  [[nodiscard]] std::string KernelLogOf(const std::string& node) const {
    return folder_ + "/state/kmsg/" + node;
  }
  // What `tide WORDS…` prints. Aborts when it fails.
  [[nodiscard]] std::string Tide(const std::vector<std::string>& words) const;
  // Runs `tide WORDS…` and gives its stdout, line by line, to `on_line` until that says false.
  template <typename OnLine>
  void TideLines(const std::vector<std::string>& words, OnLine on_line) const {
    const Child child = Spawn(words);
    FILE* const out = ::fdopen(child.out, "r");
    char* line = nullptr;
    size_t room = 0;
    while (::getline(&line, &room, out) > 0 && on_line(line)) {
    }
    ::free(line);
    ::fclose(out);
    End(child.pid);
  }

 private:
  struct Child {
    pid_t pid = -1;
    int out = -1;
  };
  [[nodiscard]] Child Spawn(const std::vector<std::string>& words) const;
  static int End(pid_t pid);

  const std::string folder_;
  Child dev_;
};

}  // namespace tide::bench
