// Dispatch and combine of a mixture-of-experts layer. A kernel normalises tokens and writes each straight into the rings of the experts that
// are to see it; one block per expert takes tokens out of its ring and writes its answers straight into the ring back; one more adds them
// up. What moves tokens between kernels, and so between machines, is the switch: every block here computes.
//
//     zsr flow create tokens -p h1 -c e0@h2 e1@h2 e2@h2 e3@h2 --item-size 1KiB --doorbell false
//     zsr flow create answers -p e0@h2 e1@h2 e2@h2 e3@h2 -c h1 --item-size 1KiB --doorbell false
//     moe 4 2000                  # experts and tokens; on the machine that has h1 and h2
//
// The layer is computed once more by one kernel without rings, and the two have to be the same in every bit.
//
//     nvcc -std=c++17 -O2 -x cu moe.cu $(pkg-config --cflags --libs zsr) -o moe      with a GPU
//     c++  -std=c++17 -O2 -x c++ moe.cu $(pkg-config --cflags --libs zsr) -pthread -o moe   without
#include <cmath>
#include <memory>

#include "device.hpp"

// An item is a token behind its heading, 1 KiB in all. Each token is seen by `chosen` experts, which have one hidden layer.
constexpr u32 width = 252, hidden = 64, chosen = 2;
struct item {
    u32 token, choice, expert, none;
    float x[width];
};
static_assert(sizeof(item) == 1024, "an item of the flows");

struct layer {
    u32 tokens, experts;
    const float *x;      // [tokens][width]
    const float *scale;  // [tokens]: makes a token's mean square 1
    const u32 *expert;   // [tokens][chosen]: who sees it
    const float *weight; // [tokens][chosen]: and how much that counts
    const float *up;     // [experts][width][hidden]
    const float *down;   // [experts][hidden][width]

    ZSR_GPU float in(u32 token, u32 i) const { return x[static_cast<u64>(token) * width + i] * scale[token]; }
    // Hidden value `h` and output `i` of an expert.
    template <class In> ZSR_GPU float hidden_of(u32 e, u32 h, const In &in) const {
        float sum = 0;
        for (u32 i = 0; i < width; ++i) sum = mad(in(i), up[(static_cast<u64>(e) * width + i) * hidden + h], sum);
        return sum > 0 ? sum : 0;
    }
    ZSR_GPU float out_of(u32 e, u32 i, const float *hidden_values) const {
        float sum = 0;
        for (u32 h = 0; h < hidden; ++h) sum = mad(hidden_values[h], down[(static_cast<u64>(e) * hidden + h) * width + i], sum);
        return sum;
    }
};
struct outcome {
    u32 status;  // of zsr.cuh; 98: no kernel has said any, 99: an item is none of this layer
    u32 items;
};

ZSR_GPU float read(const u8 *at) {
    u32 bits = zg::ring_memory::load4(at);
    float x;
    ZSR_MEMCPY(&x, &bits, 4);
    return x;
}
ZSR_GPU void write(u8 *at, float x) {
    u32 bits;
    ZSR_MEMCPY(&bits, &x, 4);
    zg::ring_memory::store4(at, bits);
}
template <class Group> ZSR_GPU void write_heading(const Group &g, u8 *at, u32 token, u32 choice, u32 expert) {
    if (g.rank() != 0) return;
    const u32 words[] = {token, choice, expert, 0};
    for (u32 i = 0; i < 4; ++i) zg::ring_memory::store4(at + 4 * i, words[i]);
}
constexpr u32 values_at = 16;

// Block `e` normalises the tokens of expert `e`, into its ring.
struct dispatch {
    layer l;
    const zg::ring *rings;
    outcome *outcomes;
    template <class Group> ZSR_GPU void operator()(u32 e, const Group &g) const {
        zg::producer out(rings[e], g);
        zg::status got = zg::status::ok;
        u32 items = 0;
        for (u32 n = 0; n < l.tokens * chosen && got == zg::status::ok; ++n) {
            if (l.expert[n] != e) continue;
            u8 *place;
            u32 room;
            got = out.reserve(g, 1, place, room);
            if (got != zg::status::ok) break;
            write_heading(g, place, n / chosen, n % chosen, e);
            for (u32 i = g.rank(); i < width; i += g.size()) write(place + values_at + 4 * i, l.in(n / chosen, i));
            out.publish(g, 1);
            ++items;
        }
        if (got == zg::status::ok) out.close(g);
        if (g.rank() == 0) outcomes[e] = {static_cast<u32>(got), items};
    }
};

// Block `e` is expert `e`: from the ring of its tokens to the ring of its answers.
struct expert {
    layer l;
    const zg::ring *tokens, *answers;
    float *scratch;  // [experts][hidden]
    outcome *outcomes;
    template <class Group> ZSR_GPU void operator()(u32 e, const Group &g) const {
        zg::consumer in(tokens[e], g);
        zg::producer out(answers[e], g);
        float *values = scratch + static_cast<u64>(e) * hidden;
        zg::status got;
        u32 items = 0;
        const u8 *from;
        u32 shown, room;
        while ((got = in.peek(g, 1, from, shown)) == zg::status::ok) {
            u8 *to;
            got = out.reserve(g, 1, to, room);
            if (got != zg::status::ok) break;
            auto input = [from](u32 i) { return read(from + values_at + 4 * i); };
            for (u32 h = g.rank(); h < hidden; h += g.size()) values[h] = l.hidden_of(e, h, input);
            g.sync();
            write_heading(g, to, zg::ring_memory::load4(from), zg::ring_memory::load4(from + 4), e);
            for (u32 i = g.rank(); i < width; i += g.size()) write(to + values_at + 4 * i, l.out_of(e, i, values));
            out.publish(g, 1);
            in.release(g, 1);
            ++items;
        }
        if (got == zg::status::closed) out.close(g);
        if (g.rank() == 0) outcomes[e] = {static_cast<u32>(got), items};
    }
};

// One block puts answers where they belong, in whatever order they come, and adds them up at the end in one order.
struct combine {
    layer l;
    const zg::ring *ring;
    float *answers;  // [tokens][chosen][width]
    float *y;        // [tokens][width]
    outcome *outcomes;
    template <class Group> ZSR_GPU void operator()(u32, const Group &g) const {
        zg::consumer in(*ring, g);
        zg::status got;
        u32 items = 0, wrong = 0;
        const u8 *from;
        u32 shown;
        while ((got = in.peek(g, 1, from, shown)) == zg::status::ok) {
            u32 token = zg::ring_memory::load4(from), choice = zg::ring_memory::load4(from + 4);
            if (token < l.tokens && choice < chosen && l.expert[token * chosen + choice] == zg::ring_memory::load4(from + 8)) {
                float *to = answers + (static_cast<u64>(token) * chosen + choice) * width;
                for (u32 i = g.rank(); i < width; i += g.size()) to[i] = read(from + values_at + 4 * i);
            } else {
                ++wrong;
            }
            in.release(g, 1);
            ++items;
        }
        g.sync();
        for (u64 n = g.rank(); n < static_cast<u64>(l.tokens) * width; n += g.size()) {
            u32 token = static_cast<u32>(n / width), i = static_cast<u32>(n % width);
            float sum = l.in(token, i);
            for (u32 c = 0; c < chosen; ++c) {
                sum = mad(l.weight[token * chosen + c], answers[(static_cast<u64>(token) * chosen + c) * width + i], sum);
            }
            y[n] = sum;
        }
        if (g.rank() == 0) outcomes[0] = {wrong > 0 ? 99 : static_cast<u32>(got), items};
    }
};

// The same layer by blocks that have all of it.
struct alone {
    layer l;
    u32 blocks;
    float *scratch;  // [blocks][chosen][hidden]
    float *y;
    template <class Group> ZSR_GPU void operator()(u32 block, const Group &g) const {
        float *values = scratch + static_cast<u64>(block) * chosen * hidden;
        for (u32 token = block; token < l.tokens; token += blocks) {
            const u32 *e = l.expert + token * chosen;
            auto input = [&](u32 i) { return l.in(token, i); };
            for (u32 n = g.rank(); n < chosen * hidden; n += g.size()) values[n] = l.hidden_of(e[n / hidden], n % hidden, input);
            g.sync();
            for (u32 i = g.rank(); i < width; i += g.size()) {
                float sum = l.in(token, i);
                for (u32 c = 0; c < chosen; ++c) sum = mad(l.weight[token * chosen + c], l.out_of(e[c], i, values + c * hidden), sum);
                y[static_cast<u64>(token) * width + i] = sum;
            }
            g.sync();
        }
    }
};

static float number(u64 seed) { return static_cast<float>(mix(seed) >> 40) / (1 << 23) - 1; }
static std::vector<float> numbers(std::size_t count, u64 seed, float most) {
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = number(seed << 40 | i) * most;
    return all;
}

static int run(u32 experts, u32 tokens) {
    std::vector<float> x = numbers(static_cast<std::size_t>(tokens) * width, 1, 4), scale(tokens), weight(static_cast<std::size_t>(tokens) * chosen);
    std::vector<u32> who(static_cast<std::size_t>(tokens) * chosen);
    for (u32 t = 0; t < tokens; ++t) {
        float squares = 0;
        for (u32 i = 0; i < width; ++i) squares += x[static_cast<std::size_t>(t) * width + i] * x[static_cast<std::size_t>(t) * width + i];
        scale[t] = 1 / std::sqrt(squares / width + 1e-6f);
        // What a gate would say: two different experts, some of them more often than others.
        u64 chance = mix(7ull << 40 | t);
        who[t * chosen] = static_cast<u32>((chance & 0xffff) * (chance >> 16 & 0xffff) % experts);
        who[t * chosen + 1] = static_cast<u32>((who[t * chosen] + 1 + (chance >> 32) % (experts - 1)) % experts);
        weight[t * chosen] = 0.5f + static_cast<float>(chance >> 56) / 512;
        weight[t * chosen + 1] = 1 - weight[t * chosen];
    }
    array<float> d_x(x), d_scale(scale), d_weight(weight), d_up(numbers(static_cast<std::size_t>(experts) * width * hidden, 2, 0.1f)),
        d_down(numbers(static_cast<std::size_t>(experts) * hidden * width, 3, 0.1f));
    array<u32> d_who(who);
    const layer l{tokens, experts, d_x.at(), d_scale.at(), d_who.at(), d_weight.at(), d_up.at(), d_down.at()};
    const std::vector<float> none(static_cast<std::size_t>(tokens) * width, 0);
    array<float> y(none), wanted(none), answers(std::vector<float>(none.size() * chosen, 0)), scratch(std::vector<float>(static_cast<std::size_t>(experts) * hidden));

    member router(member::produces, "tokens", "h1"), gathers(member::consumes, "answers", "h1");
    if (router.all.size() != experts) fail("flow `tokens` has " + std::to_string(router.all.size()) + " experts");
    std::vector<std::unique_ptr<member>> members;
    std::vector<zg::ring> from, to;
    for (u32 e = 0; e < experts; ++e) {
        const std::string name = "e" + std::to_string(e);
        members.push_back(std::make_unique<member>(member::consumes, "tokens", name));
        from.push_back(members.back()->all.at(0));
        members.push_back(std::make_unique<member>(member::produces, "answers", name));
        to.push_back(members.back()->all.at(0));
    }
    for (const auto *rings : {&router.all, &gathers.all, &from, &to}) {
        for (const zg::ring &r : *rings) {
            if (r.item != sizeof(item)) fail("items of both flows have to be 1 KiB (--item-size 1KiB)");
        }
    }
    array<zg::ring> d_out(router.all), d_from(from), d_to(to), d_in(gathers.all);
    array<outcome> said(std::vector<outcome>(2 * experts + 1, outcome{98, 0}));
    running sending(dispatch{l, d_out.at(), said.at()}, experts);
    running thinking(expert{l, d_from.at(), d_to.at(), scratch.at(), said.at() + experts}, experts);
    running adding(combine{l, d_in.at(), answers.at(), y.at(), said.at() + 2 * experts}, 1);
    sending.wait();
    thinking.wait();
    adding.wait();

    const u32 blocks = experts;
    array<float> more(std::vector<float>(static_cast<std::size_t>(blocks) * chosen * hidden));
    running(alone{l, blocks, more.at(), wanted.at()}, blocks).wait();

    const std::vector<outcome> all = said.values();
    u64 items = 0;
    for (u32 i = 0; i < all.size(); ++i) {
        const u32 good = static_cast<u32>(i < experts ? zg::status::ok : zg::status::closed);
        const char *who_says = i < experts ? "dispatch" : i < 2 * experts ? "an expert" : "combine";
        if (all[i].status != good) fail(std::string(who_says) + " ended with status " + std::to_string(all[i].status) + " behind " + std::to_string(all[i].items) + " items");
        items += all[i].items;
    }
    if (items != 3ull * tokens * chosen) fail(std::to_string(items) + " items of " + std::to_string(3ull * tokens * chosen) + " came");
    const std::vector<float> is = y.values(), should = wanted.values();
    if (std::memcmp(is.data(), should.data(), is.size() * sizeof(float)) != 0) fail("the layer's output is another than that of one kernel alone");
    std::printf("moe: %u tokens, %u experts, %llu items; the same bits as one kernel alone\n", tokens, experts, items);
    return 0;
}

int main(int argc, char **argv) {
    const unsigned long experts = argc == 3 ? std::strtoul(argv[1], nullptr, 10) : 0, tokens = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
    if (experts < 2 || experts > 64 || tokens == 0 || tokens > 1000000) {
        std::fprintf(stderr, "moe EXPERTS TOKENS (2 to 64 experts, 1 to 1000000 tokens)\n");
        return 2;
    }
    return run(static_cast<u32>(experts), static_cast<u32>(tokens));
}
