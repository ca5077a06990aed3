// How the combiners of a model weigh adapters: routing, and the attention of fusion.
#pragma once

#include "observatory.hpp"

namespace observatory {

class RoutingPanel final : public Panel {
public:
    const char* name() const override { return "Routing"; }
    const char* about() const override { return "How a combined model weighs its adapters, by token and module"; }
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory& app) override;

private:
    // The sites of one combiner that weigh over one text: what is read, or what an encoder-decoder has written.
    struct Group {
        std::string combiner;
        bool written = false;
        std::vector<std::string> of;
        std::vector<std::size_t> sites; // numbers in Model::routing()
    };
    void find_groups(const Looking& looking, const Model& model);
    void draw_pictures(Observatory& app, const Group& group);
    std::vector<Group> groups_;
    std::size_t group_ = 0, branch_ = 0;
};

} // namespace observatory
