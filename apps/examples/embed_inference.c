/* A model that writes inside an app's frames: embed_inference MODEL PROMPT [MICROSECONDS [FRAMES]]; with RECIPE.toml train
   instead of model and prompt, one that learns there.

   Every frame the app draws (here: it clears an image), then gives Hekla N microseconds of the same queue, and never
   waits for it. Text is printed as it is generated; at the end, the times of frames with Hekla and without.

       cc embed_inference.c -o embed_inference $(pkg-config --cflags --libs hekla) -lvulkan                            */
#include <hekla/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <vulkan/vulkan.h>

static hk_error* error;
static void need(int ok, const char* what) {
    const hk_string why = hk_error_message(error);
    if (!ok) fprintf(stderr, "%s: %.*s\n", what, (int)why.size, why.data), exit(1);
}
static hk_string text_of(const char* s) { return (hk_string){s, strlen(s)}; }
static double microseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Called on the session's thread: first with the prompt. */
struct heard {
    uint64_t pieces;
    double first; /* when the first word came */
};
static void print(void* user, uint64_t row, hk_string text) {
    struct heard* heard = user;
    (void)row;
    if (++heard->pieces == 2) heard->first = microseconds();
    fwrite(text.data, 1, (size_t)text.size, stdout);
    fflush(stdout);
}

/* ---- what any renderer has: a device, a queue, an image and a command buffer for each frame ---- */

enum { FRAMES_IN_FLIGHT = 2, SIDE = 512 };
struct app {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    mtx_t queue_lock; /* Hekla's session prepares on a thread of its own, and submits from there */
    uint32_t family;
    VkImage image;
    VkDeviceMemory memory;
    VkCommandPool pool;
    VkCommandBuffer commands[FRAMES_IN_FLIGHT];
    VkSemaphore timeline; /* counts frames */
};

static void lock_queue(void* app) { mtx_lock(&((struct app*)app)->queue_lock); }
static void unlock_queue(void* app) { mtx_unlock(&((struct app*)app)->queue_lock); }

static void make_device(struct app* app, hk_context* context) {
    const VkApplicationInfo about = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo with = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &about};
    need(vkCreateInstance(&with, NULL, &app->instance) == VK_SUCCESS, "vkCreateInstance");
    uint32_t one = 1;
    const VkResult listed = vkEnumeratePhysicalDevices(app->instance, &one, &app->physical);
    need((listed == VK_SUCCESS || listed == VK_INCOMPLETE) && one == 1, "no Vulkan device");
    const hk_get_instance_proc_addr get = (hk_get_instance_proc_addr)vkGetInstanceProcAddr;
    const hk_physical_device where = {sizeof where, about.apiVersion, get, app->instance, app->physical};
    hk_device_requirements needs;
    need(hk_device_requirements_create(&where, &needs, error) == HK_OK, "device");
    hk_queue_advice advice = {.struct_size = sizeof advice};
    need(hk_device_requirements_queue(needs, &advice, error) == HK_OK, "queue");
    app->family = advice.family;
    const float priorities[2] = {1.0F, advice.priority};
    const VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = advice.family,
                                            .queueCount = advice.index + 1,
                                            .pQueuePriorities = priorities};
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .timelineSemaphore = VK_TRUE}; /* ours; Hekla adds its own bits to it */
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &v12,
                               .queueCreateInfoCount = 1, .pQueueCreateInfos = &queues};
    need(hk_device_requirements_merge(needs, 1, &info, error) == HK_OK, "requirements");
    need(vkCreateDevice(app->physical, &info, NULL, &app->device) == VK_SUCCESS, "vkCreateDevice");
    mtx_init(&app->queue_lock, mtx_plain);
    vkGetDeviceQueue(app->device, advice.family, 0, &app->queue);
    const hk_vulkan_device wrapped = {.struct_size = sizeof wrapped, .api_version = about.apiVersion,
                                      .get_instance_proc_addr = get, .instance = app->instance,
                                      .physical_device = app->physical, .device = app->device, .queue = app->queue,
                                      .queue_family = advice.family, .device_create_info = &info, .user = app,
                                      .lock_queue = lock_queue, .unlock_queue = unlock_queue};
    const hk_string plugins = hk_plugin_folder();
    const hk_context_options options = {.struct_size = sizeof options, .plugin_folders = &plugins,
                                        .plugin_folder_count = 1, .device_kind = HK_DEVICE_WRAPPED, .vulkan = &wrapped};
    need(hk_context_create(&options, context, error) == HK_OK, "context");
    hk_device_requirements_destroy(needs);
}

static void make_frames(struct app* app) {
    const VkImageCreateInfo image = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO, .imageType = VK_IMAGE_TYPE_2D,
                                     .format = VK_FORMAT_R8G8B8A8_UNORM, .extent = {SIDE, SIDE, 1}, .mipLevels = 1,
                                     .arrayLayers = 1, .samples = VK_SAMPLE_COUNT_1_BIT,
                                     .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT};
    need(vkCreateImage(app->device, &image, NULL, &app->image) == VK_SUCCESS, "vkCreateImage");
    VkMemoryRequirements size;
    vkGetImageMemoryRequirements(app->device, app->image, &size);
    uint32_t type = 0;
    while (!(size.memoryTypeBits >> type & 1U)) ++type;
    const VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = size.size, .memoryTypeIndex = type};
    need(vkAllocateMemory(app->device, &allocate, NULL, &app->memory) == VK_SUCCESS, "vkAllocateMemory");
    vkBindImageMemory(app->device, app->image, app->memory, 0);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = app->family};
    need(vkCreateCommandPool(app->device, &pool, NULL, &app->pool) == VK_SUCCESS, "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                 .commandPool = app->pool, .commandBufferCount = FRAMES_IN_FLIGHT};
    need(vkAllocateCommandBuffers(app->device, &buffers, app->commands) == VK_SUCCESS, "vkAllocateCommandBuffers");
    const VkSemaphoreTypeCreateInfo kind = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &kind};
    need(vkCreateSemaphore(app->device, &semaphore, NULL, &app->timeline) == VK_SUCCESS, "vkCreateSemaphore");
}

static void draw(struct app* app, uint64_t frame) {
    if (frame > FRAMES_IN_FLIGHT) {
        const uint64_t before = frame - FRAMES_IN_FLIGHT;
        const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
                                          .pSemaphores = &app->timeline, .pValues = &before};
        need(vkWaitSemaphores(app->device, &wait, UINT64_MAX) == VK_SUCCESS, "vkWaitSemaphores");
    }
    VkCommandBuffer commands = app->commands[frame % FRAMES_IN_FLIGHT];
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    vkBeginCommandBuffer(commands, &begin);
    const VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    const VkImageMemoryBarrier to_clear = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                           .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                           .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                           .newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                           .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                           .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                           .image = app->image, .subresourceRange = whole};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0, NULL,
                         1, &to_clear);
    const VkClearColorValue colour = {.float32 = {0.1F, 0.2F, (float)(frame % 60) / 60.0F, 1.0F}};
    vkCmdClearColorImage(commands, app->image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &colour, 1, &whole);
    vkEndCommandBuffer(commands);
    const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                  .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &frame};
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values, .commandBufferCount = 1,
                                 .pCommandBuffers = &commands, .signalSemaphoreCount = 1,
                                 .pSignalSemaphores = &app->timeline};
    lock_queue(app);
    const VkResult submitted = vkQueueSubmit(app->queue, 1, &submit, VK_NULL_HANDLE);
    unlock_queue(app);
    need(submitted == VK_SUCCESS, "vkQueueSubmit");
}

/* ---- frames that were measured ---- */

static int ascending(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}
static void say(const char* what, double* values, size_t count) {
    if (count == 0) return;
    qsort(values, count, sizeof *values, ascending);
    fprintf(stderr, "%-34s %8zu %9.0f %9.0f %9.0f %9.0f\n", what, count, values[count / 2], values[count * 95 / 100],
            values[count * 99 / 100], values[count - 1]);
}

int main(int argc, char** argv) {
    if (argc < 3 || argc > 5)
        return fprintf(stderr, "usage: embed_inference MODEL PROMPT [MICROSECONDS [FRAMES]]\n"), 2;
    const double budget = argc > 3 ? atof(argv[3]) : 2000.0;
    const size_t most = argc > 4 ? (size_t)atoll(argv[4]) : 100000;
    const double began = microseconds();
    struct heard heard = {0, 0};
    error = hk_error_create();
    struct app app = {0};
    hk_context context;
    make_device(&app, &context);
    make_frames(&app);
    double* without = calloc(3 * most, sizeof(double));
    double *with = without + most, *taken = with + most;

    /* The session prepares on its own thread while the app draws. */
    hk_session session;
    const hk_string prompt = text_of(argv[2]);
    hk_generate_options generate;
    hk_generate_defaults(&generate);
    generate.model = text_of(argv[1]);
    generate.prompts = &prompt;
    generate.prompt_count = 1;
    generate.max_new_tokens = 64;
    generate.echo_prompt = 1;
    generate.text = print;
    generate.user = &heard;
    const hk_train_options train = {.struct_size = sizeof train, .recipe = text_of(argv[1])};
    need((strcmp(argv[2], "train") == 0 ? hk_session_train(context, &train, NULL, &session, error)
                                        : hk_session_generate(context, &generate, NULL, &session, error)) == HK_OK,
         "session");
    hk_session_info info = {.struct_size = sizeof info};
    uint64_t frame = 0;
    do {
        draw(&app, ++frame);
        need(hk_session_wait(session, 0, &info, error) == HK_OK, "session");
    } while (info.state == HK_SESSION_PREPARING);

    size_t count = 0, empty = 0;
    for (; empty < 100 && empty < most; ++empty) {
        const double begin = microseconds();
        draw(&app, ++frame);
        without[empty] = microseconds() - begin;
    }
    const hk_advance advance = {.struct_size = sizeof advance, .microseconds = budget};
    hk_advanced out = {.struct_size = sizeof out};
    double measured = 0, worst = 0;
    size_t spans = 0;
    while (info.state == HK_SESSION_WORKING && count < most) {
        const double begin = microseconds();
        draw(&app, ++frame);
        need(hk_session_advance(session, &advance, &out, error) == HK_OK, "advance");
        with[count++] = microseconds() - begin;
        if (out.measured != measured) { /* of a call some frames ago */
            measured = out.measured;
            taken[spans++] = measured;
            if (measured - budget > worst) worst = measured - budget;
        }
        need(hk_session_wait(session, 0, &info, error) == HK_OK, "session");
    }
    if (info.state == HK_SESSION_FAILED)
        return fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data), 1;
    printf("\n");
    fprintf(stderr, "microseconds                          frames       p50       p95       p99      most\n");
    say("a frame without Hekla", without, empty);
    say("a frame with it", with, count);
    say("device time of one advance", taken, spans);
    fprintf(stderr, "the budget is %.0f; it was passed by %.0f at most; the longest piece takes %.0f\n", budget, worst,
            info.longest);

    if (heard.first > 0) fprintf(stderr, "the first word came %.0f ms after the start\n", (heard.first - began) * 1e-3);

    hk_session_destroy(session);
    hk_context_destroy(context);
    vkDeviceWaitIdle(app.device);
    vkDestroySemaphore(app.device, app.timeline, NULL);
    vkDestroyCommandPool(app.device, app.pool, NULL);
    vkDestroyImage(app.device, app.image, NULL);
    vkFreeMemory(app.device, app.memory, NULL);
    vkDestroyDevice(app.device, NULL);
    vkDestroyInstance(app.instance, NULL);
    mtx_destroy(&app.queue_lock);
    hk_error_destroy(error);
    free(without);
    return 0;
}
