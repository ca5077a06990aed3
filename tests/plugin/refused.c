// A plugin with one head and one objective, both named 'h', with the error that WRONG selects, or none if it is 0.
#define HK_TARGET_ABI_MINOR 0
#include "hekla/plugin/plugin.h"

#define NOTHING 0
#define MAGIC 1
#define SIZE 2
#define NO_INIT 3
#define NEWER 4
#define OTHER_MAJOR 5
#define FORK 6
#define INIT_FAILS 7
#define NO_TABLE 8
#define NO_DESTROY 9
#define NO_INSTANCE 10
#define DRAFTS 11

static const hk_host* host;
static int inits;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    (void)config, (void)error;
    *self = &inits;
    return HK_OK;
}
static int32_t HK_ABI create_objective(const hk_config* config, const hk_tokenizer* tokenizer, void** self, hk_error* error) {
    (void)config, (void)tokenizer, (void)error;
    *self = WRONG == NO_INSTANCE ? NULL : &inits;
    return HK_OK;
}
static void HK_ABI destroy(void* self) { (void)self; }
static int32_t HK_ABI build(void* self, hk_builder* builder, hk_error* error) {
    (void)self, (void)builder, (void)error;
    return HK_OK;
}
static int32_t HK_ABI example_kind(void* self) { return (void)self, HK_EXAMPLE_ROW; }
static int64_t HK_ABI tokens_per_example(void* self, int64_t length) { return (void)self, length; }
static int32_t HK_ABI fields(void* self, int64_t batch, int64_t length, void(HK_ABI* push)(void* context, const hk_field* field),
                             void* context, hk_error* error) {
    (void)self, (void)batch, (void)length, (void)push, (void)context, (void)error;
    return HK_OK;
}
static const hk_head head = {create, WRONG == NO_DESTROY ? NULL : destroy, build, NULL, NULL};
static const hk_objective objective = {create_objective, destroy, example_kind, tokens_per_example, NULL, NULL, fields, build, NULL};

static int32_t HK_ABI init(const hk_host* given, hk_error* error) {
    host = given;
    ++inits;
    const hk_log_interface* log = (const hk_log_interface*)host->get_interface(host, hk_text(HK_LOG_INTERFACE));
    if (WRONG == NOTHING && inits == 1) log->write(host, HK_LOG_INFO, hk_text("init"));
    if (WRONG != INIT_FAILS && inits == 1) return HK_OK;
    const hk_error_interface* errors = (const hk_error_interface*)host->get_interface(host, hk_text(HK_ERROR_INTERFACE));
    errors->set(error, HK_FAILED_PRECONDITION, hk_text(inits == 1 ? "not today" : "init() was called twice"));
    return HK_FAILED_PRECONDITION;
}
static void HK_ABI deinit(void) {
    const hk_log_interface* log = (const hk_log_interface*)host->get_interface(host, hk_text(HK_LOG_INTERFACE));
    if (WRONG == NOTHING) log->write(host, HK_LOG_INFO, hk_text("deinit"));
    inits = 0;
}
// Returns the host's draft table as its own, or null; neither get_interface() provides drafts.
static const void* HK_ABI draft(hk_string interface_id, hk_string id) {
    const hk_string wanted = hk_text("hekla.experiment.draft/1");
    if (id.size != 1 || interface_id.size != wanted.size || memcmp(interface_id.data, wanted.data, wanted.size) != 0) return NULL;
    if (host->get_interface(host, wanted) != NULL) return &inits;
    const hk_drafts_interface* door = (const hk_drafts_interface*)host->get_interface(host, hk_text(HK_DRAFTS_INTERFACE));
    return door != NULL ? door->get(host, wanted) : NULL;
}
static const hk_draft_offers offers = {draft};
static const void* HK_ABI get(hk_string interface_id, hk_string id) {
    const hk_string is_offers = hk_text(HK_DRAFT_OFFERS_INTERFACE);
    if (WRONG == DRAFTS && interface_id.size == is_offers.size && memcmp(interface_id.data, is_offers.data, is_offers.size) == 0) return &offers;
    if (WRONG == NO_TABLE || id.size != 1 || id.data[0] != 'h') return NULL;
    const hk_string is_head = hk_text(HK_HEAD_INTERFACE), is_objective = hk_text(HK_OBJECTIVE_INTERFACE);
    if (interface_id.size == is_head.size && memcmp(interface_id.data, is_head.data, is_head.size) == 0) return &head;
    if (interface_id.size == is_objective.size && memcmp(interface_id.data, is_objective.data, is_objective.size) == 0) return &objective;
    return NULL;
}

HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void);
HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void) {
    static const hk_plugin_entry entry = {
        WRONG == MAGIC ? 7 : HK_ENTRY_MAGIC,
        WRONG == SIZE ? 8 : (uint32_t)sizeof(hk_plugin_entry),
        WRONG == OTHER_MAJOR ? 77 : HK_ABI_MAJOR,
        WRONG == NEWER ? 99 : HK_TARGET_ABI_MINOR,
        WRONG == NEWER ? 99 : HK_ABI_MINOR,
        0,
        {WRONG == FORK ? "spoon" : NULL, WRONG == FORK ? 5 : 0},
        WRONG == NO_INIT ? NULL : init,
        deinit,
        get,
    };
    return &entry;
}
