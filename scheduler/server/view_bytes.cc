#include "scheduler/server/view_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/wire/plan.h"
#include "scheduler/core/policy/estimate_text.h"
#include "scheduler/core/policy/reasons.h"
#include "tide/v1/types.pb.h"

namespace tide {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// What `write` writes, and zeros, too: a message would leave them out, and an earlier value of the
// field would count.
std::string Written(const auto& write) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    CodedOutputStream coded(&stream);
    write(coded);
  }
  return bytes;
}

}  // namespace

SharedText SharedTexts::Share(std::string text) {
  if (const auto known = texts_.find(std::string_view(text)); known != texts_.end()) {
    return *known;
  }
  if (texts_.size() >= sweep_at_) {
    std::erase_if(texts_, [](const SharedText& each) { return each.use_count() == 1; });
    sweep_at_ = std::max(sweep_at_, 2 * texts_.size());
  }
  return *texts_.insert(std::make_shared<const std::string>(std::move(text))).first;
}

std::string EncodeReasons(const Job& job, const ReasonList& reasons) {
  tide::v1::Job message;
  for (const Reason& reason : reasons) {
    const ReasonText text = DescribeReason(job, reason);
    tide::v1::Reason* added = message.add_reasons();
    added->set_code(text.code);
    added->set_message(text.message);
    added->set_remedy(text.remedy);
  }
  return message.SerializeAsString();
}

std::string EncodeEstimate(const StartEstimate& estimate) {
  tide::v1::Job message;
  *message.mutable_estimate() = wire::ToProto(DescribeEstimate(estimate));
  return message.SerializeAsString();
}

std::string EncodeProgress(const TaskProgress& progress) {
  return Written([&](CodedOutputStream& coded) {
    WireFormatLite::WriteInt64(tide::v1::Job::kStepFieldNumber, progress.step, &coded);
    WireFormatLite::WriteInt64(tide::v1::Job::kTotalStepsFieldNumber, progress.total_steps, &coded);
    WireFormatLite::WriteDouble(tide::v1::Job::kLossFieldNumber, progress.loss, &coded);
    if (!progress.preparing.empty()) {
      WireFormatLite::WriteString(tide::v1::Job::kPreparingFieldNumber, progress.preparing, &coded);
    }
    if (progress.memory_bytes > 0) {
      WireFormatLite::WriteUInt64(
          tide::v1::Job::kMemoryBytesFieldNumber, progress.memory_bytes, &coded);
      WireFormatLite::WriteUInt32(
          tide::v1::Job::kCpuMillisFieldNumber, progress.cpu_millis, &coded);
    }
    if (progress.ticked_at.is_set()) {
      WireFormatLite::WriteInt64(
          tide::v1::Job::kTickedAtFieldNumber, progress.ticked_at.unix_nanos(), &coded);
      WireFormatLite::WriteUInt32(
          tide::v1::Job::kTickedTaskFieldNumber, progress.ticked_task, &coded);
      WireFormatLite::WriteUInt32(tide::v1::Job::kPhaseFieldNumber, progress.phase, &coded);
    }
    if (progress.failed_saves > 0) {
      WireFormatLite::WriteUInt32(
          tide::v1::Job::kFailedSavesFieldNumber, progress.failed_saves, &coded);
      WireFormatLite::WriteInt32(tide::v1::Job::kSaveErrnoFieldNumber, progress.save_errno, &coded);
      WireFormatLite::WriteUInt32(
          tide::v1::Job::kFailedTaskFieldNumber, progress.failed_task, &coded);
    }
  });
}

std::string EncodeConnection(bool connected, const RefusedAgent& refused) {
  std::string bytes = Written([&](CodedOutputStream& coded) {
    WireFormatLite::WriteBool(tide::v1::Node::kConnectedFieldNumber, connected, &coded);
  });
  if (refused.at.is_set()) {
    tide::v1::RefusedAgent message;
    message.set_endpoint(refused.endpoint);
    message.set_peer(refused.peer);
    message.set_at(refused.at.unix_nanos());
    AppendObject(bytes, tide::v1::Node::kRefusedAgentFieldNumber, {message.SerializeAsString()});
  }
  return bytes;
}

void AppendObject(std::string& delta, int field, std::initializer_list<std::string_view> parts) {
  size_t size = 0;
  for (const std::string_view part : parts) {
    size += part.size();
  }
  constexpr size_t kTagAndLengthMost = 10;
  std::array<uint8_t, kTagAndLengthMost> head{};
  uint8_t* end = WireFormatLite::WriteTagToArray(
      field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, head.data());
  end = CodedOutputStream::WriteVarint64ToArray(size, end);
  delta.append(head.begin(), head.begin() + (end - head.data()));
  for (const std::string_view part : parts) {
    delta.append(part);
  }
}

}  // namespace tide
