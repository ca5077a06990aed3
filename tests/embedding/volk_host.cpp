// A host that draws with its own copy of volk, on its own device, while Hekla generates on another:
//
//     volk_host MODEL PROMPT
//
// Generates once without drawing, then while a thread draws, and prints whether the texts are equal and every frame is
// correct. volk's functions are global variables with the names of Vulkan's: Hekla must neither call nor change them.
#include <volk.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hekla/hekla.h>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "volk_host: %s\n", what.c_str());
    std::exit(1);
}

void check(VkResult result, const char* what) {
    if (result != VK_SUCCESS) fail(std::string(what) + " failed: " + std::to_string(result));
}

constexpr uint32_t kSide = 64;

// Clears an image to the color of the frame and copies it to a readable buffer.
class Drawing {
public:
    Drawing() {
        check(volkInitialize(), "volkInitialize");
        VkApplicationInfo app{};
        app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        app.apiVersion = VK_API_VERSION_1_2;
        VkInstanceCreateInfo of_instance{};
        of_instance.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        of_instance.pApplicationInfo = &app;
        check(vkCreateInstance(&of_instance, nullptr, &instance_), "vkCreateInstance");
        volkLoadInstance(instance_);
        uint32_t count = 1;
        const VkResult found = vkEnumeratePhysicalDevices(instance_, &count, &physical_);
        if (found < 0 || count == 0) fail("there is no device");
        const float priority = 1.0F;
        VkDeviceQueueCreateInfo of_queue{};
        of_queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        of_queue.queueFamilyIndex = family();
        of_queue.queueCount = 1;
        of_queue.pQueuePriorities = &priority;
        VkDeviceCreateInfo of_device{};
        of_device.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        of_device.queueCreateInfoCount = 1;
        of_device.pQueueCreateInfos = &of_queue;
        check(vkCreateDevice(physical_, &of_device, nullptr, &device_), "vkCreateDevice");
        volkLoadDevice(device_); // from here on volk's globals belong to this device
        vkGetDeviceQueue(device_, of_queue.queueFamilyIndex, 0, &queue_);

        VkImageCreateInfo of_image{};
        of_image.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
        of_image.imageType = VK_IMAGE_TYPE_2D;
        of_image.format = VK_FORMAT_R8G8B8A8_UNORM;
        of_image.extent = {kSide, kSide, 1};
        of_image.mipLevels = of_image.arrayLayers = 1;
        of_image.samples = VK_SAMPLE_COUNT_1_BIT;
        of_image.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
        check(vkCreateImage(device_, &of_image, nullptr, &image_), "vkCreateImage");
        VkMemoryRequirements needs{};
        vkGetImageMemoryRequirements(device_, image_, &needs);
        image_memory_ = allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        check(vkBindImageMemory(device_, image_, image_memory_, 0), "vkBindImageMemory");

        VkBufferCreateInfo of_buffer{};
        of_buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
        of_buffer.size = VkDeviceSize{kSide} * kSide * 4;
        of_buffer.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        check(vkCreateBuffer(device_, &of_buffer, nullptr, &buffer_), "vkCreateBuffer");
        vkGetBufferMemoryRequirements(device_, buffer_, &needs);
        buffer_memory_ = allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
        check(vkBindBufferMemory(device_, buffer_, buffer_memory_, 0), "vkBindBufferMemory");
        void* mapped = nullptr;
        check(vkMapMemory(device_, buffer_memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
        pixels_ = static_cast<const unsigned char*>(mapped);

        VkCommandPoolCreateInfo of_pool{};
        of_pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        of_pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
        of_pool.queueFamilyIndex = of_queue.queueFamilyIndex;
        check(vkCreateCommandPool(device_, &of_pool, nullptr, &pool_), "vkCreateCommandPool");
        VkCommandBufferAllocateInfo of_commands{};
        of_commands.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        of_commands.commandPool = pool_;
        of_commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
        of_commands.commandBufferCount = 1;
        check(vkAllocateCommandBuffers(device_, &of_commands, &commands_), "vkAllocateCommandBuffers");
    }
    ~Drawing() {
        vkDeviceWaitIdle(device_);
        vkDestroyCommandPool(device_, pool_, nullptr);
        vkDestroyBuffer(device_, buffer_, nullptr);
        vkDestroyImage(device_, image_, nullptr);
        vkFreeMemory(device_, buffer_memory_, nullptr);
        vkFreeMemory(device_, image_memory_, nullptr);
        vkDestroyDevice(device_, nullptr);
        vkDestroyInstance(instance_, nullptr);
    }
    Drawing(const Drawing&) = delete;
    Drawing& operator=(const Drawing&) = delete;

    void frame(unsigned number) {
        const unsigned char red = static_cast<unsigned char>(number % 256);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
        move(VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 0, VK_ACCESS_TRANSFER_WRITE_BIT);
        VkClearColorValue colour{};
        colour.float32[0] = static_cast<float>(red) / 255.0F;
        colour.float32[3] = 1.0F;
        const VkImageSubresourceRange all{VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        vkCmdClearColorImage(commands_, image_, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &colour, 1, &all);
        move(VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_ACCESS_TRANSFER_WRITE_BIT,
             VK_ACCESS_TRANSFER_READ_BIT);
        VkBufferImageCopy copy{};
        copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        copy.imageExtent = {kSide, kSide, 1};
        vkCmdCopyImageToBuffer(commands_, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer_, 1, &copy);
        check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands_;
        check(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
        check(vkQueueWaitIdle(queue_), "vkQueueWaitIdle");
        for (uint32_t i = 0; i < kSide * kSide; ++i)
            if (pixels_[4 * i] != red) fail("a frame came out wrong");
    }

private:
    uint32_t family() const {
        uint32_t count = 0;
        vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
        std::vector<VkQueueFamilyProperties> families(count);
        vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
        for (uint32_t i = 0; i < count; ++i)
            if ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0) return i;
        fail("there is no queue that draws");
    }
    VkDeviceMemory allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags flags) const {
        VkPhysicalDeviceMemoryProperties memory{};
        vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
        for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
            if ((needs.memoryTypeBits & (1U << i)) == 0 || (memory.memoryTypes[i].propertyFlags & flags) != flags)
                continue;
            VkMemoryAllocateInfo info{};
            info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
            info.allocationSize = needs.size;
            info.memoryTypeIndex = i;
            VkDeviceMemory made = VK_NULL_HANDLE;
            check(vkAllocateMemory(device_, &info, nullptr, &made), "vkAllocateMemory");
            return made;
        }
        fail("there is no memory of that kind");
    }
    void move(VkImageLayout from, VkImageLayout to, VkAccessFlags before, VkAccessFlags after) const {
        VkImageMemoryBarrier barrier{};
        barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
        barrier.srcAccessMask = before;
        barrier.dstAccessMask = after;
        barrier.oldLayout = from;
        barrier.newLayout = to;
        barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
        barrier.image = image_;
        barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr,
                             0, nullptr, 1, &barrier);
    }
    VkInstance instance_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkImage image_ = VK_NULL_HANDLE;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory image_memory_ = VK_NULL_HANDLE, buffer_memory_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    const unsigned char* pixels_ = nullptr;
};

std::string written(const char* model, const char* prompt) {
    hk_error* error = hk_error_create();
    const auto must = [&](int32_t code) {
        const hk_string message = hk_error_message(error);
        if (code != HK_OK) fail(std::string(message.data, static_cast<std::size_t>(message.size)));
    };
    hk_context_options options{};
    options.struct_size = sizeof options;
    const hk_string plugins = hk_plugin_folder();
    options.plugin_folders = &plugins;
    options.plugin_folder_count = 1;
    hk_context context{};
    must(hk_context_create(&options, &context, error));
    std::string text;
    const hk_string from{prompt, std::strlen(prompt)};
    hk_generate_options generate{};
    hk_generate_defaults(&generate);
    generate.model = {model, std::strlen(model)};
    generate.prompts = &from;
    generate.prompt_count = 1;
    generate.max_new_tokens = 40;
    generate.greedy = 1;
    generate.user = &text;
    generate.text = [](void* user, uint64_t, hk_string piece) {
        static_cast<std::string*>(user)->append(piece.data, static_cast<std::size_t>(piece.size));
    };
    must(hk_generate(context, &generate, nullptr, error));
    hk_context_destroy(context);
    hk_error_destroy(error);
    return text;
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) fail("expected: volk_host MODEL PROMPT");
    const std::string alone = written(argv[1], argv[2]);
    Drawing drawing;
    const PFN_vkQueueSubmit submit = vkQueueSubmit;
    std::atomic<bool> over{false};
    std::atomic<unsigned> frames{0};
    std::thread draws([&] {
        while (!over) drawing.frame(frames++);
    });
    while (frames == 0) std::this_thread::yield();
    const std::string beside = written(argv[1], argv[2]);
    over = true;
    draws.join();
    if (vkQueueSubmit != submit) fail("the functions that volk loaded were changed");
    if (beside != alone) fail("other text while something is drawn: " + beside);
    if (alone.empty()) fail("nothing was written");
    std::printf("the same text, beside %u frames\n", frames.load());
    return 0;
}
