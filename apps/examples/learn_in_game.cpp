// Agents that learn while the game runs: learn_in_game FOLDER [FRAMES [PICTURE.ppm]]
//
// Each agent looks for its fruit on a grid. A teacher knows the way; a small transformer learns from the teacher's
// moves ("kc" -> "R": the fruit is 2 to the right and 6 up, go right), within a time budget per frame, on the device
// and the queue that also draw the frames. After each save of the weights, the agents switch to them.
//
//     c++ -std=c++20 learn_in_game.cpp -o learn_in_game $(pkg-config --cflags --libs hekla) -lvulkan
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <hekla/hekla.hpp>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>
#include <vulkan/vulkan.h>

namespace fs = std::filesystem;

constexpr int kGrid = 16, kAgents = 12, kCell = 24, kSide = kGrid * kCell;
constexpr int kSteps = 400, kSaveEvery = 50;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "learn_in_game: %s\n", what.c_str());
    std::exit(1);
}
void check(VkResult result, const char* what) {
    if (result < 0) fail(std::string(what) + " failed");
}
void check(const hk::Error& error) {
    if (error) fail(error.message());
}

// ---- the game ----

struct Agent {
    int x, y, fruit_x, fruit_y;
};

std::string looks(const Agent& a) {
    const auto letter = [](int d) { return static_cast<char>('a' + std::clamp(d + 8, 0, 16)); };
    return {letter(a.fruit_x - a.x), letter(a.fruit_y - a.y)};
}
char teacher(const Agent& a) {
    const int dx = std::clamp(a.fruit_x - a.x, -8, 8), dy = std::clamp(a.fruit_y - a.y, -8, 8);
    if (dx == 0 && dy == 0) return 'E'; // eat
    if (std::abs(dx) >= std::abs(dy)) return dx > 0 ? 'R' : 'L';
    return dy > 0 ? 'D' : 'U';
}

struct Game {
    std::mt19937 random{7};
    std::vector<Agent> agents;
    int moves = 0, right = 0, eaten = 0;

    int anywhere() { return static_cast<int>(random() % kGrid); }
    Agent placed() { return {anywhere(), anywhere(), anywhere(), anywhere()}; }
    Game() {
        for (int i = 0; i < kAgents; ++i) agents.push_back(placed());
    }
    void move(Agent& a, char action) {
        ++moves;
        right += action == teacher(a) ? 1 : 0;
        if (action == 'E' && a.x == a.fruit_x && a.y == a.fruit_y) {
            ++eaten;
            a.fruit_x = anywhere();
            a.fruit_y = anywhere();
        }
        a.x = std::clamp(a.x + (action == 'R') - (action == 'L'), 0, kGrid - 1);
        a.y = std::clamp(a.y + (action == 'D') - (action == 'U'), 0, kGrid - 1);
    }
    double share() const { return moves > 0 ? static_cast<double>(right) / moves : 0.0; }
};

// ---- the renderer: rectangles in an image ----

struct Renderer {
    VkInstance instance{};
    VkPhysicalDevice physical{};
    VkDevice device{};
    VkQueue queue{};
    uint32_t family = 0;
    std::mutex queue_mutex; // Hekla's sessions prepare on their own threads, and submit from there
    VkImage image{};
    VkImageView view{};
    VkDeviceMemory memory{}, read_memory{};
    VkBuffer read{};
    VkCommandPool pool{};
    VkCommandBuffer commands{};
    VkFence fence{};

    uint32_t memory_type(uint32_t bits, VkMemoryPropertyFlags flags) const {
        VkPhysicalDeviceMemoryProperties all;
        vkGetPhysicalDeviceMemoryProperties(physical, &all);
        for (uint32_t i = 0; i < all.memoryTypeCount; ++i)
            if ((bits >> i & 1) != 0 && (all.memoryTypes[i].propertyFlags & flags) == flags) return i;
        fail("no memory of the kind that is needed");
    }

    // Creates the app's own device. Hekla adds its requirements to the existing structures.
    hk::Context make_device() {
        VkApplicationInfo app{};
        app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        app.apiVersion = VK_API_VERSION_1_3;
        VkInstanceCreateInfo with{};
        with.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        with.pApplicationInfo = &app;
        check(vkCreateInstance(&with, nullptr, &instance), "vkCreateInstance");
        uint32_t one = 1;
        check(vkEnumeratePhysicalDevices(instance, &one, &physical), "vkEnumeratePhysicalDevices");
        if (one == 0) fail("there is no Vulkan device");
        hk::Error error;
        const auto get = reinterpret_cast<hk_get_instance_proc_addr>(vkGetInstanceProcAddr);
        const hk_physical_device where{sizeof where, app.apiVersion, get, instance, physical};
        hk_device_requirements needs{};
        error.take(hk_device_requirements_create(&where, &needs, error.c()));
        check(error);
        // One queue for drawing, shared with Hekla.
        uint32_t families = 0;
        vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, nullptr);
        std::vector<VkQueueFamilyProperties> properties(families);
        vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, properties.data());
        while (family < families && (properties[family].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0) ++family;
        if (family == families) fail("the device draws nothing");
        const float priority = 1.0F;
        VkDeviceQueueCreateInfo queues{};
        queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queues.queueFamilyIndex = family;
        queues.queueCount = 1;
        queues.pQueuePriorities = &priority;
        VkPhysicalDeviceVulkan13Features v13{};
        v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        v13.dynamicRendering = VK_TRUE;
        VkDeviceCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        info.pNext = &v13;
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queues;
        error.take(hk_device_requirements_merge(needs, 1, &info, error.c()));
        check(error);
        check(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
        vkGetDeviceQueue(device, family, 0, &queue);
        hk_vulkan_device wrapped{};
        wrapped.struct_size = sizeof wrapped;
        wrapped.api_version = app.apiVersion;
        wrapped.get_instance_proc_addr = get;
        wrapped.instance = instance;
        wrapped.physical_device = physical;
        wrapped.device = device;
        wrapped.queue = queue;
        wrapped.queue_family = family;
        wrapped.device_create_info = &info;
        wrapped.user = this;
        wrapped.lock_queue = [](void* user) { static_cast<Renderer*>(user)->queue_mutex.lock(); };
        wrapped.unlock_queue = [](void* user) { static_cast<Renderer*>(user)->queue_mutex.unlock(); };
        hk::ContextOptions options;
        options.vulkan = &wrapped;
        hk::Context context = hk::Context::create(std::move(options), error);
        check(error);
        hk_device_requirements_destroy(needs);
        return context;
    }

    void make_image() {
        VkImageCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
        create.imageType = VK_IMAGE_TYPE_2D;
        create.format = VK_FORMAT_R8G8B8A8_UNORM;
        create.extent = {kSide, kSide, 1};
        create.mipLevels = create.arrayLayers = 1;
        create.samples = VK_SAMPLE_COUNT_1_BIT;
        create.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
        check(vkCreateImage(device, &create, nullptr, &image), "vkCreateImage");
        VkMemoryRequirements size;
        vkGetImageMemoryRequirements(device, image, &size);
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        allocate.allocationSize = size.size;
        allocate.memoryTypeIndex = memory_type(size.memoryTypeBits, 0);
        check(vkAllocateMemory(device, &allocate, nullptr, &memory), "vkAllocateMemory");
        check(vkBindImageMemory(device, image, memory, 0), "vkBindImageMemory");
        VkImageViewCreateInfo seen{};
        seen.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
        seen.image = image;
        seen.viewType = VK_IMAGE_VIEW_TYPE_2D;
        seen.format = create.format;
        seen.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        check(vkCreateImageView(device, &seen, nullptr, &view), "vkCreateImageView");
        VkBufferCreateInfo buffer{};
        buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
        buffer.size = VkDeviceSize{kSide} * kSide * 4;
        buffer.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        check(vkCreateBuffer(device, &buffer, nullptr, &read), "vkCreateBuffer");
        vkGetBufferMemoryRequirements(device, read, &size);
        allocate.allocationSize = size.size;
        allocate.memoryTypeIndex = memory_type(size.memoryTypeBits, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
        check(vkAllocateMemory(device, &allocate, nullptr, &read_memory), "vkAllocateMemory");
        check(vkBindBufferMemory(device, read, read_memory, 0), "vkBindBufferMemory");
        VkCommandPoolCreateInfo commands_of{};
        commands_of.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        commands_of.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
        commands_of.queueFamilyIndex = family;
        check(vkCreateCommandPool(device, &commands_of, nullptr, &pool), "vkCreateCommandPool");
        VkCommandBufferAllocateInfo buffers{};
        buffers.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        buffers.commandPool = pool;
        buffers.commandBufferCount = 1;
        check(vkAllocateCommandBuffers(device, &buffers, &commands), "vkAllocateCommandBuffers");
        VkFenceCreateInfo signalled{};
        signalled.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
        signalled.flags = VK_FENCE_CREATE_SIGNALED_BIT;
        check(vkCreateFence(device, &signalled, nullptr, &fence), "vkCreateFence");
    }

    void barrier(VkImageLayout from, VkImageLayout to) const {
        VkImageMemoryBarrier change{};
        change.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
        change.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
        change.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
        change.oldLayout = from;
        change.newLayout = to;
        change.srcQueueFamilyIndex = change.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
        change.image = image;
        change.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                             nullptr, 0, nullptr, 1, &change);
    }

    void draw(const Game& game) {
        check(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
        check(vkResetFences(device, 1, &fence), "vkResetFences");
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
        barrier(VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
        VkRenderingAttachmentInfo target{};
        target.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO;
        target.imageView = view;
        target.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
        target.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
        target.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
        target.clearValue.color = {{0.09F, 0.10F, 0.13F, 1.0F}};
        VkRenderingInfo rendering{};
        rendering.sType = VK_STRUCTURE_TYPE_RENDERING_INFO;
        rendering.renderArea = {{0, 0}, {kSide, kSide}};
        rendering.layerCount = 1;
        rendering.colorAttachmentCount = 1;
        rendering.pColorAttachments = &target;
        vkCmdBeginRendering(commands, &rendering);
        const auto square = [&](int x, int y, int inset, VkClearColorValue color) {
            const VkClearAttachment clear{VK_IMAGE_ASPECT_COLOR_BIT, 0, {color}};
            const auto size = static_cast<uint32_t>(kCell - 2 * inset);
            const VkClearRect where{{{x * kCell + inset, y * kCell + inset}, {size, size}}, 0, 1};
            vkCmdClearAttachments(commands, 1, &clear, 1, &where);
        };
        for (std::size_t i = 0; i < game.agents.size(); ++i) {
            const Agent& a = game.agents[i];
            const float hue = static_cast<float>(i) / static_cast<float>(kAgents);
            const VkClearColorValue color{{0.35F + 0.6F * hue, 0.75F - 0.4F * hue, 0.95F - 0.7F * hue, 1.0F}};
            square(a.fruit_x, a.fruit_y, 8, color);
            square(a.x, a.y, 3, color);
        }
        vkCmdEndRendering(commands);
        barrier(VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
        VkBufferImageCopy copy{};
        copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        copy.imageExtent = {kSide, kSide, 1};
        vkCmdCopyImageToBuffer(commands, image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, read, 1, &copy);
        check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands;
        const std::lock_guard guard(queue_mutex);
        check(vkQueueSubmit(queue, 1, &submit, fence), "vkQueueSubmit");
    }

    void save(const std::string& file) const {
        check(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
        void* pixels = nullptr;
        check(vkMapMemory(device, read_memory, 0, VK_WHOLE_SIZE, 0, &pixels), "vkMapMemory");
        std::ofstream out(file, std::ios::binary);
        out << "P6\n" << kSide << " " << kSide << "\n255\n";
        for (int i = 0; i < kSide * kSide; ++i) out.write(static_cast<const char*>(pixels) + i * 4, 3);
        if (!out) fail("cannot write " + file);
    }

    ~Renderer() {
        vkDeviceWaitIdle(device);
        vkDestroyFence(device, fence, nullptr);
        vkDestroyCommandPool(device, pool, nullptr);
        vkDestroyBuffer(device, read, nullptr);
        vkFreeMemory(device, read_memory, nullptr);
        vkDestroyImageView(device, view, nullptr);
        vkDestroyImage(device, image, nullptr);
        vkFreeMemory(device, memory, nullptr);
        vkDestroyDevice(device, nullptr);
        vkDestroyInstance(instance, nullptr);
    }
};

// ---- learning ----

// Writes the teacher's moves and the recipe to a folder of the game.
std::string write_lessons(const fs::path& folder) {
    fs::create_directories(folder);
    Game lessons;
    std::ofstream text(folder / "lessons.jsonl");
    for (int i = 0; i < 20000; ++i) {
        const Agent a = lessons.placed();
        text << "{\"prompt\": \"" << looks(a) << "\", \"completion\": \"" << teacher(a) << "\"}\n";
    }
    std::string recipe = (folder / "policy.toml").string();
    std::ofstream(recipe) << "[model]\narchitecture = \"gpt2\"\nn_embd = 64\nn_layer = 2\nn_head = 4\nn_positions = 8\n"
                             "resid_pdrop = 0.0\nembd_pdrop = 0.0\nattn_pdrop = 0.0\n"
                             "[objective]\nid = \"completion\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n"
                             "[data]\nvalid_fraction = 0.0\ntrain = \""
                          << (folder / "lessons.jsonl").string() << "\"\n[train]\nmax_steps = " << kSteps
                          << "\ncontext_length = 8\nper_device_train_batch_size = 64\nlearning_rate = 3e-3\n"
                             "lr_scheduler_type = \"linear\"\nwarmup_ratio = 0.1\neval_steps = 0\nsave_steps = "
                          << kSaveEvery << "\n[output]\ndir = \"" << (folder / "policy").string() << "\"\n";
    return recipe;
}

int main(int argc, char** argv) {
    if (argc < 2 || argc > 4) fail("usage: learn_in_game FOLDER [FRAMES [PICTURE.ppm]]");
    const fs::path folder = argv[1];
    const int64_t frames = argc > 2 ? std::atoll(argv[2]) : 20000;
    Renderer renderer;
    const hk::Context context = renderer.make_device();
    renderer.make_image();
    Game game;

    std::atomic<int64_t> step{0};
    std::atomic<double> loss{0.0};
    hk::Error error;
    hk::TrainingOptions lessons;
    lessons.recipe = write_lessons(folder);
    lessons.step = [&](const hk_train_step& s) {
        step = s.step;
        loss = s.loss;
    };
    hk::Training training = context.train(std::move(lessons), error);
    check(error);

    hk::Generation policy, next;
    int64_t known = 0; // the step of the policy's weights, or of those being loaded
    bool asked = false;
    const auto states = [&] {
        std::vector<std::string> all;
        for (const Agent& a : game.agents) all.push_back(looks(a));
        return all;
    };
    std::printf("   frame   step    loss   moves as the teacher   fruit\n");
    std::optional<double> first;
    bool trained = false;
    for (int64_t frame = 1; frame <= frames; ++frame) {
        renderer.draw(game);

        // Two milliseconds of the frame for learning, one for the policy.
        if (!trained) {
            training.advance(2000, error);
            check(error);
            const hk_session_info info = training.session().wait(0);
            if (info.state == HK_SESSION_FAILED) fail(std::string(hk::view(info.message)));
            trained = info.state == HK_SESSION_DONE;
        }
        if (policy) {
            policy.advance(1000, error);
            check(error);
            if (policy.state() == hk::State::idle && asked) {
                for (std::size_t i = 0; i < game.agents.size(); ++i) {
                    const std::string answer = policy.taken(i);
                    game.move(game.agents[i], answer.empty() ? ' ' : answer[0]);
                }
                policy.prompt(states(), error);
                check(error);
            }
        } else if (frame % 4 == 0) {
            for (Agent& a : game.agents) game.move(a, "LRUDE"[game.random() % 5]);
        }

        // Newer weights: another session prepares while the current one is used.
        const int64_t saved = trained ? kSteps : step / kSaveEvery * kSaveEvery;
        if (!next && saved > known &&
            fs::exists(folder / "policy" / ("checkpoint-" + std::to_string(saved)) / "MANIFEST.json")) {
            hk::GenerationOptions think;
            think.model = (folder / "policy" / ("checkpoint-" + std::to_string(saved))).string();
            think.prompts = states();
            think.max_new_tokens = 1;
            think.temperature = 0;
            next = context.generate(think, error);
            check(error);
            known = saved;
        }
        if (next) {
            const hk_session_info info = next.session().wait(0);
            if (info.state == HK_SESSION_FAILED) fail(std::string(hk::view(info.message)));
            if (info.state != HK_SESSION_PREPARING) {
                if (!first) first = game.share();
                std::printf("%8lld %6lld %7.3f %20.0f%% %7d\n", static_cast<long long>(frame),
                            static_cast<long long>(step.load()), loss.load(), 100.0 * game.share(), game.eaten);
                policy = std::move(next);
                next = hk::Generation();
                asked = true;
                game.moves = game.right = game.eaten = 0;
            }
        }
        if (trained && known == kSteps && !next && game.moves >= 400) break;
    }
    std::printf("agents without a policy moved as the teacher in %.0f %% of their moves, at the end in %.0f %%\n",
                100.0 * first.value_or(0.0), 100.0 * game.share());
    if (argc > 3) renderer.save(argv[3]);
    return 0;
}
