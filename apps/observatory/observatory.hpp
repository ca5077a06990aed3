// What the panels share: the model that is looked at, the text, the training, and the parts of the app they draw with.
#pragma once

#include "gui/controls.hpp"
#include "gui/gui.hpp"
#include "models/engine.hpp"
#include "models/text_view.hpp"
#include "models/training.hpp"
#include "panels/file_browser.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace observatory {

class Observatory {
public:
    // wait_for_frames: returns when every frame that was submitted has been executed.
    Observatory(Engine& engine, Gui& gui, Controls& controls, float scale, std::function<void()> wait_for_frames)
        : engine(engine), gui(gui), controls(controls), scale(scale), wait_for_frames(std::move(wait_for_frames)),
          looking(engine) {}

    Engine& engine;
    Gui& gui;
    Controls& controls;
    const float scale; // of pixels
    const std::function<void()> wait_for_frames;
    uint64_t frame = 0;

    // Between two frames, when no frame reads what Hekla made any more: for what ends sessions.
    void later(std::function<void()> change) { changes_.push_back(std::move(change)); }
    // Between frames: what was left for later, a model that was opened, a text to look at.
    void change();
    bool has_more_to_change() const { return !changes_.empty() || look_again_; }

    // On the other thread; model() is the new one some frames later.
    void open(const std::string& path);
    bool is_opening() const { return opening_; }
    const Model* model() const { return model_.get(); }
    uint64_t model_number() const { return model_number_; } // grows with every other model
    const std::string& problem() const { return problem_; } // of opening

    // What attention and lens are of.
    std::string text = "The quick brown fox jumps over the lazy dog";
    void look() { look_again_ = true; } // soon, at text
    Looking looking;

    std::unique_ptr<Training> training;
    void train(const std::string& recipe, const std::vector<std::string>& overrides);
    std::string training_problem;

    FileBrowser browser;
    // What is done with the path that the browser gives next.
    std::function<void(const std::string&)> browsed;
    void browse(FileBrowser::Wanted wanted, const std::string& start, std::function<void(const std::string&)> then) {
        browser.open(wanted, start);
        browsed = std::move(then);
    }

private:
    void take_opened();
    std::vector<std::function<void()>> changes_;
    std::shared_ptr<Model> model_;
    uint64_t model_number_ = 0;
    std::atomic<bool> opening_{false};
    bool look_again_ = false;
    std::string problem_;
    // From the other thread.
    std::mutex mutex_;
    std::shared_ptr<Model> opened_;
    std::optional<std::string> open_problem_;
};

// One side of the model or of a training, in the window's middle.
class Panel {
public:
    Panel() = default;
    virtual ~Panel() = default;
    Panel(const Panel&) = delete;
    Panel& operator=(const Panel&) = delete;
    virtual const char* name() const = 0;
    virtual const char* about() const = 0; // a line for a tooltip
    // Between frames: what ends or begins sessions. shown: the panel is.
    virtual void change(Observatory&, bool) {}
    // Before the frame is drawn, outside of its pass.
    virtual void record(Observatory&, VkCommandBuffer, bool) {}
    virtual void draw(Observatory& app) = 0;
    virtual bool needs_weights() const { return false; }     // the model's, on the device
    virtual bool is_settled(Observatory&) { return true; }   // nothing more comes by itself
    virtual std::string problem(Observatory&) { return {}; } // why there is nothing to show
};

} // namespace observatory
