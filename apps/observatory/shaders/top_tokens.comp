// The most probable tokens of a row of logits with their probabilities, and the entropy of the row. One workgroup per
// row.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 128) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
struct Token {
    uint id;
    float probability;
};
layout(buffer_reference, std430, buffer_reference_align = 8) writeonly buffer Tokens { Token at[]; };
layout(push_constant) uniform Push {
    Floats logits; // [rows, vocabulary]
    Tokens tokens; // [rows, count + 1]: the most probable first; the last one's probability is the entropy in bits
    uint vocabulary, count;
} push;
shared float values[128];
shared uint ids[128];

// Returns the greatest value, with the smallest id that has it.
void reduce(float value, uint id) {
    const uint me = gl_LocalInvocationIndex;
    values[me] = value;
    ids[me] = id;
    barrier();
    for (uint half_ = 64u; half_ > 0u; half_ /= 2u) {
        const uint other = min(me + half_, 127u);
        const bool is_more = values[other] > values[me] || (values[other] == values[me] && ids[other] < ids[me]);
        if (me < half_ && is_more) {
            values[me] = values[me + half_];
            ids[me] = ids[me + half_];
        }
        barrier();
    }
}
float total(float value) {
    const uint me = gl_LocalInvocationIndex;
    values[me] = value;
    barrier();
    for (uint half_ = 64u; half_ > 0u; half_ /= 2u) {
        if (me < half_) values[me] += values[me + half_];
        barrier();
    }
    const float all = values[0];
    barrier();
    return all;
}

void main() {
    const uint me = gl_LocalInvocationIndex, row = gl_WorkGroupID.x, begin = row * push.vocabulary;
    const float lowest = -3.4e38;
    const uint none = 0xFFFFFFFFu;
    float last = 3.4e38, greatest = 0.0, sum = 1.0;
    uint last_id = none;
    for (uint k = 0u; k < push.count; ++k) {
        float value = lowest;
        uint id = none;
        for (uint i = me; i < push.vocabulary; i += 128u) {
            const float x = push.logits.at[begin + i];
            const bool is_left = x < last || (x == last && last_id != none && i > last_id); // not taken yet
            if (is_left && x > value) {
                value = x;
                id = i;
            }
        }
        reduce(value, id);
        last = values[0];
        last_id = ids[0];
        barrier();
        if (k == 0u) {
            greatest = last;
            float mine = 0.0, weighed = 0.0;
            for (uint i = me; i < push.vocabulary; i += 128u) {
                const float x = push.logits.at[begin + i] - greatest;
                mine += exp(x);
                weighed += x * exp(x);
            }
            sum = total(mine);
            const float mean = total(weighed) / sum;
            if (me == 0u) {
                push.tokens.at[row * (push.count + 1u) + push.count].id = 0u;
                push.tokens.at[row * (push.count + 1u) + push.count].probability = (log(sum) - mean) * 1.442695;
            }
        }
        if (me == 0u) {
            push.tokens.at[row * (push.count + 1u) + k].id = last_id;
            const float share = last_id == none ? 0.0 : exp(last - greatest) / sum;
            push.tokens.at[row * (push.count + 1u) + k].probability = share;
        }
    }
}
