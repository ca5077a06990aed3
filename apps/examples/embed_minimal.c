/* From your VkDevice to generated text: embed_minimal MODEL PROMPT

       cc embed_minimal.c -o embed_minimal $(pkg-config --cflags --libs hekla) -lvulkan                                */
#include <hekla/hekla.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static hk_error* error;
static void need(int ok, const char* what) {
    const hk_string why = hk_error_message(error);
    if (!ok) fprintf(stderr, "%s: %.*s\n", what, (int)why.size, why.data), exit(1);
}
static hk_string text_of(const char* s) { return (hk_string){s, strlen(s)}; }
static void print(void* user, uint64_t row, hk_string text) {
    (void)user, (void)row;
    fwrite(text.data, 1, (size_t)text.size, stdout);
}

int main(int argc, char** argv) {
    if (argc != 3) return fprintf(stderr, "usage: embed_minimal MODEL PROMPT\n"), 2;
    error = hk_error_create();

    /* The app's own instance and device. Hekla lists what it needs, and adds it to your structures. */
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo with = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    VkInstance instance;
    need(vkCreateInstance(&with, NULL, &instance) == VK_SUCCESS, "vkCreateInstance");
    VkPhysicalDevice physical;
    uint32_t one = 1;
    const VkResult listed = vkEnumeratePhysicalDevices(instance, &one, &physical);
    need((listed == VK_SUCCESS || listed == VK_INCOMPLETE) && one == 1, "no Vulkan device");

    const hk_get_instance_proc_addr get = (hk_get_instance_proc_addr)vkGetInstanceProcAddr;
    const hk_physical_device where = {sizeof where, app.apiVersion, get, instance, physical};
    hk_device_requirements needs;
    need(hk_device_requirements_create(&where, &needs, error) == HK_OK, "device");
    hk_queue_advice advice = {.struct_size = sizeof advice};
    need(hk_device_requirements_queue(needs, &advice, error) == HK_OK, "queue");
    const float priorities[2] = {1.0F, advice.priority};
    const VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = advice.family,
                                            .queueCount = advice.index + 1,
                                            .pQueuePriorities = priorities};
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queues};
    need(hk_device_requirements_merge(needs, 1, &info, error) == HK_OK, "requirements");
    VkDevice device;
    need(vkCreateDevice(physical, &info, NULL, &device) == VK_SUCCESS, "vkCreateDevice");
    VkQueue queue;
    vkGetDeviceQueue(device, advice.family, advice.index, &queue);

    /* Hekla on that device. */
    const hk_vulkan_device wrapped = {.struct_size = sizeof wrapped, .api_version = app.apiVersion,
                                      .get_instance_proc_addr = get, .instance = instance,
                                      .physical_device = physical, .device = device, .queue = queue,
                                      .queue_family = advice.family, .device_create_info = &info};
    const hk_string plugins = hk_plugin_folder();
    const hk_context_options options = {.struct_size = sizeof options, .plugin_folders = &plugins,
                                        .plugin_folder_count = 1, .device_kind = HK_DEVICE_WRAPPED, .vulkan = &wrapped};
    hk_context context;
    need(hk_context_create(&options, &context, error) == HK_OK, "context");
    hk_device_requirements_destroy(needs);

    /* The text, as it is generated. */
    const hk_string prompt = text_of(argv[2]);
    hk_generate_options generate;
    hk_generate_defaults(&generate);
    generate.model = text_of(argv[1]);
    generate.prompts = &prompt;
    generate.prompt_count = 1;
    generate.max_new_tokens = 32;
    generate.echo_prompt = 1;
    generate.text = print;
    need(hk_generate(context, &generate, NULL, error) == HK_OK, "generate");
    printf("\n");

    hk_context_destroy(context);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    hk_error_destroy(error);
    return 0;
}
