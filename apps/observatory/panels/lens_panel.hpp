// The next-token predictions of each layer and of the model: logit lens and next tokens.
#pragma once

#include "observatory.hpp"

namespace observatory {

class LensPanel final : public Panel {
public:
    const char* name() const override { return "Logit lens"; }
    const char* about() const override { return "What each layer would say next if the network ended there"; }
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override {
        return !app.looking.is_busy() && (app.looking.lenses() == 0 || app.looking.has_top(app.frame));
    }
    std::string problem(Observatory& app) override {
        return app.looking.problem().empty() ? app.looking.lens_problem() : app.looking.problem();
    }

private:
    int scrolls_ = 0; // frames in which the table scrolls to its end
    void draw_table(Observatory& app, ImVec2 size);
    void draw_next(Observatory& app, ImVec2 size);
    std::size_t layer_ = 0, token_ = 0; // the selected cell
    std::vector<int32_t> seen_;         // the text that they were selected in
};

} // namespace observatory
