// The state that the panels share: the open model, the text, the training, and the parts of the app that draw.
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
    // wait_for_frames: returns when all submitted frames have completed.
    Observatory(Engine& engine, Gui& gui, Controls& controls, float scale, std::function<void()> wait_for_frames)
        : engine(engine), gui(gui), controls(controls), scale(scale), wait_for_frames(std::move(wait_for_frames)),
          looking(engine) {}

    Engine& engine;
    Gui& gui;
    Controls& controls;
    const float scale; // scale factor of the window's contents
    const std::function<void()> wait_for_frames;
    uint64_t frame = 0;

    // Defers a change that ends sessions until between two frames, when no frame reads Hekla's outputs.
    void later(std::function<void()> change) { changes_.push_back(std::move(change)); }
    // Between frames: runs the deferred changes, and takes over an opened model or a new text.
    void change();
    bool has_more_to_change() const { return !changes_.empty() || look_again_; }

    // Opens a model on the other thread; model() returns it some frames later.
    void open(const std::string& path);
    bool is_opening() const { return opening_; }
    const Model* model() const { return model_.get(); }
    uint64_t model_number() const { return model_number_; } // increases with every model
    const std::string& problem() const { return problem_; } // of opening the model

    // The text of the attention and lens panels.
    std::string text = "The quick brown fox jumps over the lazy dog";
    void look() { look_again_ = true; } // soon runs the model on `text`
    Looking looking;

    std::unique_ptr<Training> training;
    void train(const std::string& recipe, const std::vector<std::string>& overrides);
    std::string training_problem;

    FileBrowser browser;
    // Receives the path that the browser returns next.
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
    // Set by the other thread.
    std::mutex mutex_;
    std::shared_ptr<Model> opened_;
    std::optional<std::string> open_problem_;
};

// A tab in the middle of the window: one view of the model or of a training.
class Panel {
public:
    Panel() = default;
    virtual ~Panel() = default;
    Panel(const Panel&) = delete;
    Panel& operator=(const Panel&) = delete;
    virtual const char* name() const = 0;
    virtual const char* about() const = 0; // one line for a tooltip
    // Starts or ends sessions between frames. The argument is whether the panel is shown.
    virtual void change(Observatory&, bool) {}
    // Records commands before the frame's render pass.
    virtual void record(Observatory&, VkCommandBuffer, bool) {}
    virtual void draw(Observatory& app) = 0;
    virtual bool needs_weights() const { return false; }     // the model's weights on the device
    virtual bool is_settled(Observatory&) { return true; }   // nothing changes any more without input
    virtual std::string problem(Observatory&) { return {}; } // why there is nothing to display
};

} // namespace observatory
