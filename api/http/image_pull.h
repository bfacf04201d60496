#pragma once
// One image fetched by many nodes, told as lines of JSON while it goes on.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api/http/node_choice.h"
#include "api/upstream/images.h"

namespace tide::api {

class ImagePull {
 public:
  ImagePull(NodeImages& images, std::vector<ChosenNode> nodes, v1::PullImageRequest request)
      : images_(images), nodes_(std::move(nodes)), request_(std::move(request)) {}

  // Until every node has the image or has said why not; until the sink fails: then the fetches
  // are called off. heartbeat: an empty line comes after so long without another.
  void Run(BodySink& sink, std::chrono::milliseconds heartbeat);

 private:
  void PullOn(const ChosenNode& node);
  [[nodiscard]] Status FetchOn(const ChosenNode& node);
  [[nodiscard]] bool Enter(PullCall& call);
  void Leave(PullCall& call);
  void SayProgress(const std::string& node, const std::string& progress);
  void SayEnd(const std::string& node, std::string line);
  [[nodiscard]] std::string TakeLines(std::chrono::milliseconds timeout);
  void CallOff();

  NodeImages& images_;
  const std::vector<ChosenNode> nodes_;
  const v1::PullImageRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // To be sent: of a node's progress the latest, as a slow client must not be waited for.
  std::deque<std::string> ends_;
  std::map<std::string, std::string> progress_;
  std::set<PullCall*> calls_;
  size_t pulled_ = 0;
  size_t over_ = 0;
  std::atomic<bool> called_off_ = false;
};

}  // namespace tide::api
