// The order of the rows of y: by batch, head, token, and for the inverse (the gradient) by batch, token, head, as the
// product before the rotation computed them.
#ifndef HEKLA_ROTARY_ROW
#define HEKLA_ROTARY_ROW

// Returns batch, head and token of a row.
uvec3 rotary_row(uint row, uint heads, uint tokens, uint inverse) {
    const uint inner = inverse != 0u ? heads : tokens;
    const uint line = row / inner;
    const uint within = row - line * inner;
    const uint outer = inverse != 0u ? tokens : heads;
    const uint b = line / outer;
    const uint middle = line - b * outer;
    return inverse != 0u ? uvec3(b, within, middle) : uvec3(b, middle, within);
}

#endif
