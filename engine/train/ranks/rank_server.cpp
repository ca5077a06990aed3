#include "train/ranks/rank_server.hpp"

#include "train/evaluation/evaluate.hpp"
#include "train/ranks/rank_command.hpp"
#include "train/run/compiled_training.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/run_progress.hpp"
#include "train/run/state_tensor.hpp"
#include "train/training_run.hpp"
#include "train/update/schedule.hpp"

namespace hekla::train {
namespace {

class RankServer {
public:
    explicit RankServer(TrainingRun& run)
        : ranks_(run.compiled().run.context.ranks), run_(run), compiled_(run.compiled()) {}

    Status serve() {
        for (bool continues = true; continues;) {
            RankCommand command;
            HK_TRY(ranks_.broadcast(command));
            HK_ASSIGN(continues, obey(command));
        }
        return {};
    }

private:
    // Returns whether the training continues.
    Result<bool> obey(const RankCommand& command) {
        using Task = RankCommand::Task;
        switch (command.task) {
        case Task::end: return false;
        case Task::steps: HK_TRY(take_steps(command.step)); return true;
        case Task::roll_out: {
            next_ = -1; // examples of the next step are rollouts
            batcher_.reset();
            HK_TRY(unless_cancelled(compiled_.source->refill(command.step, false, ranks_)));
            return true;
        }
        case Task::evaluate:
            run_.progress().step = command.step;
            HK_TRY(unless_cancelled(run_.validate(false).status()));
            return true;
        case Task::synchronize:
            HK_TRY(compiled_.strategy->synchronize(command.step));
            HK_TRY(compiled_.source->synchronize(ranks_));
            return true;
        case Task::balance: next_ = -1; [[fallthrough]]; // other micro-batches
        default: HK_TRY(compiled_.strategy->obey(command)); return true;
        }
    }

    // Rank 0 decides what follows.
    static Status unless_cancelled(const Status& done) { return done.code() == Code::cancelled ? Status() : done; }

    Status take_steps(int64_t first) {
        if (first != next_) {
            batcher_.reset();
            HK_ASSIGN(batcher_, run_.batches(first));
        }
        int64_t& step = run_.progress().step;
        step = first;
        for (int64_t left = compiled_.strategy->steps_at_once(first); left > 0; --left) {
            HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, run_.next_micro_batches(*batcher_));
            if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
            HK_TRY(run_.begin_step(*micro, step, learning_rate(run_.recipe().train, step)));
            HK_TRY(run_.end_step().status());
            ++step;
        }
        next_ = step;
        return {};
    }

    exchange::Communicator& ranks_;
    TrainingRun& run_;
    CompiledTraining& compiled_;
    std::unique_ptr<data::Batcher> batcher_;
    int64_t next_ = -1; // step of the batcher's next batch
};

} // namespace

Status serve_rank_0(TrainingRun& run) { return RankServer(run).serve(); }

} // namespace hekla::train
