#include "vulkan/pipeline.hpp"

#include "failure.hpp"

#include <array>

namespace observatory {
namespace {

constexpr VkShaderStageFlags kStages =
    VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;

VkPipelineShaderStageCreateInfo stage(VkShaderStageFlagBits which, VkShaderModule module) {
    VkPipelineShaderStageCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage = which;
    info.module = module;
    info.pName = "main";
    return info;
}

} // namespace

void Pipeline::make_layout() {
    const VkPushConstantRange range{kStages, 0, kPushBytes};
    VkPipelineLayoutCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    create.pushConstantRangeCount = 1;
    create.pPushConstantRanges = &range;
    require(vkCreatePipelineLayout(device_.handle(), &create, nullptr, &layout_), "vkCreatePipelineLayout");
}

VkShaderModule Pipeline::make_module(Words words) const {
    VkShaderModuleCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    create.codeSize = words.size_bytes();
    create.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    require(vkCreateShaderModule(device_.handle(), &create, nullptr, &module), "vkCreateShaderModule");
    return module;
}

Pipeline::Pipeline(Device& device, Words compute) : device_(device), point_(VK_PIPELINE_BIND_POINT_COMPUTE) {
    make_layout();
    const VkShaderModule module = make_module(compute);
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    create.stage = stage(VK_SHADER_STAGE_COMPUTE_BIT, module);
    create.layout = layout_;
    const VkResult made = vkCreateComputePipelines(device.handle(), VK_NULL_HANDLE, 1, &create, nullptr, &pipeline_);
    vkDestroyShaderModule(device.handle(), module, nullptr);
    require(made, "vkCreateComputePipelines");
}

Pipeline::Pipeline(Device& device, Words vertex, Words fragment, VkRenderPass pass)
    : device_(device), point_(VK_PIPELINE_BIND_POINT_GRAPHICS) {
    make_layout();
    const std::array<VkShaderModule, 2> modules{make_module(vertex), make_module(fragment)};
    const std::array<VkPipelineShaderStageCreateInfo, 2> stages{stage(VK_SHADER_STAGE_VERTEX_BIT, modules[0]),
                                                                stage(VK_SHADER_STAGE_FRAGMENT_BIT, modules[1])};
    VkPipelineVertexInputStateCreateInfo input{};
    input.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO;
    VkPipelineInputAssemblyStateCreateInfo assembly{};
    assembly.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO;
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    VkPipelineViewportStateCreateInfo viewport{};
    viewport.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO;
    viewport.viewportCount = 1;
    viewport.scissorCount = 1;
    VkPipelineRasterizationStateCreateInfo raster{};
    raster.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO;
    raster.cullMode = VK_CULL_MODE_NONE;
    raster.lineWidth = 1.0F;
    VkPipelineMultisampleStateCreateInfo samples{};
    samples.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO;
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState over{};
    over.blendEnable = VK_TRUE;
    over.srcColorBlendFactor = VK_BLEND_FACTOR_SRC_ALPHA;
    over.dstColorBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
    over.srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
    over.dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
    over.colorWriteMask = 0xF;
    VkPipelineColorBlendStateCreateInfo blend{};
    blend.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO;
    blend.attachmentCount = 1;
    blend.pAttachments = &over;
    const std::array<VkDynamicState, 2> changing{VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    VkPipelineDynamicStateCreateInfo dynamic{};
    dynamic.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO;
    dynamic.dynamicStateCount = static_cast<uint32_t>(changing.size());
    dynamic.pDynamicStates = changing.data();
    VkGraphicsPipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO;
    create.stageCount = static_cast<uint32_t>(stages.size());
    create.pStages = stages.data();
    create.pVertexInputState = &input;
    create.pInputAssemblyState = &assembly;
    create.pViewportState = &viewport;
    create.pRasterizationState = &raster;
    create.pMultisampleState = &samples;
    create.pColorBlendState = &blend;
    create.pDynamicState = &dynamic;
    create.layout = layout_;
    create.renderPass = pass;
    const VkResult made = vkCreateGraphicsPipelines(device.handle(), VK_NULL_HANDLE, 1, &create, nullptr, &pipeline_);
    for (const VkShaderModule module : modules) vkDestroyShaderModule(device.handle(), module, nullptr);
    require(made, "vkCreateGraphicsPipelines");
}

Pipeline::~Pipeline() {
    vkDestroyPipeline(device_.handle(), pipeline_, nullptr);
    vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
}

void Pipeline::bind(VkCommandBuffer commands, const void* push, std::size_t bytes) const {
    vkCmdBindPipeline(commands, point_, pipeline_);
    vkCmdPushConstants(commands, layout_, kStages, 0, static_cast<uint32_t>(bytes), push);
}

void barrier(VkCommandBuffer commands) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT;
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &memory, 0, nullptr, 0,
                         nullptr);
}

} // namespace observatory
