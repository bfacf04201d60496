#pragma once
// Elements of a job array as one thing: "j-12[]", "j-12[3-7]".

#include <expected>
#include <memory>
#include <string>

#include "api/http/problem.h"
#include "api/view/view.h"
#include "common/spec/array_ref.h"

namespace tide::api {

struct App;
struct Call;

struct Elements {
  ArrayRef ref;
  std::shared_ptr<const JobRow> array;  // its first element
  uint32_t last = 0;                    // as `ref.last`, but never beyond the end

  [[nodiscard]] uint32_t count() const { return last - ref.first + 1; }
  [[nodiscard]] uint64_t first_job() const { return ref.job + ref.first; }
};

// The elements that the path of `call` names. Errors: kInvalidArgument for what is no such text;
// kNotFound for no such array or element, or kUnavailable (NotFound of routes.h); those of
// CheckJob.
[[nodiscard]] std::expected<Elements, Problem> FindElements(const App& app,
                                                            const View& view,
                                                            const Call& call);

// The first of them that is queued or held; else the first.
[[nodiscard]] std::shared_ptr<const JobRow> FirstWaiting(const View& view,
                                                         const Elements& elements);

// {id, array, first, last, count, name, user, states: {queued: 3, …}}; an outcome once finished.
//   Cost: O(elements); of a whole array a five-hundredth of that.
[[nodiscard]] std::string ElementsJson(const View& view, const Elements& elements);

}  // namespace tide::api
