//! A Zig layer over the plugin ABI: graphs with typed operations (operations.zig), configurations, architectures with their
//! heads, and the one export. Everything else of the ABI (objectives, own operations, adapters) is in `abi`, raw, and its
//! tables can be given to plugin(). Zig 0.14 or newer; neither libc nor the standard library's allocators of C are needed.
//!
//!     const hekla = @import("hekla.zig");
//!     comptime {
//!         hekla.plugin(1, &.{hekla.architecture("mine", Mine)});
//!     }
//!
//! The first error of a graph is kept by the host: afterwards every value is 0 and every call does nothing, so that build
//! functions need no checks.
const std = @import("std");

pub const abi = @import("hekla_plugin.zig");
pub const operations = @import("operations.zig");

/// The host's interfaces, set before anything else runs and constant afterwards.
pub const Interfaces = struct {
    host: *const abi.hk_host,
    failure: *const abi.hk_error_interface,
    config: *const abi.hk_config_interface,
    graph: *const abi.hk_graph_interface,
    tokenizer: ?*const abi.hk_tokenizer_interface,
    log: ?*const abi.hk_log_interface,
};
pub var interfaces: ?Interfaces = null;

/// The codes of the ABI. The host has the message, or gets it by fail().
pub const Error = error{ InvalidArgument, NotFound, Unsupported, FailedPrecondition, OutOfMemory, Io, Corrupt, DeviceLost, Cancelled, Internal };

/// The ABI's form of a text. The text is not copied.
pub fn text(from: []const u8) abi.hk_string {
    return .{ .data = from.ptr, .size = from.len };
}

/// The bytes of a text of the ABI, as long as its owner keeps them.
pub fn bytes(from: abi.hk_string) []const u8 {
    return if (from.size == 0) "" else from.data[0..@intCast(from.size)];
}

/// Fills an error as std.fmt does: return hekla.fail(failure, abi.HK_INVALID_ARGUMENT, "{d} heads", .{heads}).
pub fn fail(failure: ?*abi.hk_error, code: i32, comptime format: []const u8, arguments: anytype) i32 {
    var buffer: [512]u8 = undefined;
    const message = std.fmt.bufPrint(&buffer, format, arguments) catch buffer[0..];
    interfaces.?.failure.set.?(failure, code, text(message));
    return code;
}

// ---- configurations

/// A configuration that is read. Errors name the key.
pub const Config = struct {
    raw: *const abi.hk_config,
    failure: ?*abi.hk_error,

    pub fn has(self: Config, key: []const u8) bool {
        return interfaces.?.config.has.?(self.raw, text(key)) != 0;
    }
    /// Returns whether the key exists and is null: from minor 2 of the host on.
    pub fn isNull(self: Config, key: []const u8) bool {
        return interfaces.?.config.is_null.?(self.raw, text(key)) != 0;
    }
    pub fn integer(self: Config, key: []const u8) Error!i64 {
        var value: i64 = 0;
        return self.checked(value, interfaces.?.config.get_integer.?(self.raw, text(key), &value, self.failure), &value);
    }
    pub fn real(self: Config, key: []const u8) Error!f64 {
        var value: f64 = 0;
        return self.checked(value, interfaces.?.config.get_real.?(self.raw, text(key), &value, self.failure), &value);
    }
    pub fn boolean(self: Config, key: []const u8) Error!bool {
        var value: i32 = 0;
        return try self.checked(value, interfaces.?.config.get_boolean.?(self.raw, text(key), &value, self.failure), &value) != 0;
    }
    /// Valid as long as the configuration.
    pub fn string(self: Config, key: []const u8) Error![]const u8 {
        var value: abi.hk_string = text("");
        return bytes(try self.checked(value, interfaces.?.config.get_text.?(self.raw, text(key), &value, self.failure), &value));
    }

    fn checked(_: Config, like: anytype, code: i32, value: *@TypeOf(like)) Error!@TypeOf(like) {
        return if (code == abi.HK_OK) value.* else errorOf(code);
    }
};

/// A configuration that is written.
pub const ConfigWriter = struct {
    raw: *abi.hk_config_writer,
    failure: ?*abi.hk_error,

    pub fn integer(self: ConfigWriter, key: []const u8, value: i64) Error!void {
        return checked(interfaces.?.config.set_integer.?(self.raw, text(key), value, self.failure));
    }
    pub fn real(self: ConfigWriter, key: []const u8, value: f64) Error!void {
        return checked(interfaces.?.config.set_real.?(self.raw, text(key), value, self.failure));
    }
    pub fn boolean(self: ConfigWriter, key: []const u8, value: bool) Error!void {
        return checked(interfaces.?.config.set_boolean.?(self.raw, text(key), @intFromBool(value), self.failure));
    }
    pub fn string(self: ConfigWriter, key: []const u8, value: []const u8) Error!void {
        return checked(interfaces.?.config.set_text.?(self.raw, text(key), text(value), self.failure));
    }

    fn checked(code: i32) Error!void {
        if (code != abi.HK_OK) return errorOf(code);
    }
};

// ---- graphs

/// A tensor of one graph.
pub const Value = struct {
    graph: *const Graph,
    id: abi.hk_value, // 0 after an error

    /// The number of dimensions; 0 after an error.
    pub fn rank(self: Value) usize {
        var dims: [abi.HK_MAX_RANK]i64 = undefined;
        return self.shape(&dims).len;
    }
    /// A dimension's size; a negative number counts from the last. 1 after an error.
    pub fn dim(self: Value, axis: i64) i64 {
        var room: [abi.HK_MAX_RANK]i64 = undefined;
        const dims = self.shape(&room);
        const size: i64 = @intCast(dims.len);
        const at = if (axis < 0) axis + size else axis;
        if (at >= 0 and at < size) return dims[@intCast(at)];
        if (self.id != 0) self.graph.fail("a value of {d} dimensions has no dimension {d}", .{ size, axis });
        return 1;
    }
    pub fn shape(self: Value, room: *[abi.HK_MAX_RANK]i64) []const i64 {
        var count: u32 = 0;
        const kind_or_error = interfaces.?.graph.shape.?(self.graph.builder, self.id, room, &count);
        return room[0..if (kind_or_error < 0) 0 else count];
    }
    /// abi.HK_KIND_*, or -1 after an error.
    pub fn kind(self: Value) i32 {
        var room: [abi.HK_MAX_RANK]i64 = undefined;
        var count: u32 = 0;
        return interfaces.?.graph.shape.?(self.graph.builder, self.id, &room, &count);
    }
};

pub fn orNone(value: ?Value) Value {
    return value orelse .{ .graph = undefined, .id = 0 };
}

pub fn attribute(name: []const u8, value: anytype) abi.hk_attribute {
    var a = std.mem.zeroes(abi.hk_attribute);
    a.struct_size = @sizeOf(abi.hk_attribute);
    a.name = text(name);
    switch (@TypeOf(value)) {
        i64 => {
            a.type = abi.HK_ATTRIBUTE_INT;
            a.integer = value;
        },
        f64 => {
            a.type = abi.HK_ATTRIBUTE_REAL;
            a.real = value;
        },
        []const u8 => {
            a.type = abi.HK_ATTRIBUTE_TEXT;
            a.text = text(value);
        },
        []const i64 => {
            a.type = abi.HK_ATTRIBUTE_INTS;
            a.integers = value.ptr;
            a.count = value.len;
        },
        []const f64 => {
            a.type = abi.HK_ATTRIBUTE_REALS;
            a.reals = value.ptr;
            a.count = value.len;
        },
        else => @compileError("an attribute is an i64, an f64, a text, or a slice of numbers"),
    }
    return a;
}

/// The first values of a parameter.
pub const Initial = struct {
    how: i32,
    a: f64,
    b: f64 = 0,

    pub fn constant(value: f64) Initial {
        return .{ .how = abi.HK_INITIALIZE_CONSTANT, .a = value };
    }
    pub fn normal(deviation: f64) Initial {
        return .{ .how = abi.HK_INITIALIZE_NORMAL, .a = 0, .b = deviation };
    }
};

/// A graph that is being described.
pub const Graph = struct {
    builder: *abi.hk_builder,

    pub fn mode(self: *const Graph) i32 {
        return interfaces.?.graph.mode.?(self.builder);
    }
    pub fn hasField(self: *const Graph, name: []const u8) bool {
        return interfaces.?.graph.has_field.?(self.builder, text(name)) != 0;
    }
    pub fn input(self: *const Graph, name: []const u8) Value {
        return self.value(interfaces.?.graph.input.?(self.builder, text(name)));
    }
    pub fn parameter(self: *const Graph, name: []const u8, dims: []const i64, initial: Initial) Value {
        return self.parameterWith(name, dims, initial, 0);
    }
    /// flags: abi.HK_PARAMETER_*
    pub fn parameterWith(self: *const Graph, name: []const u8, dims: []const i64, initial: Initial, flags: u32) Value {
        return self.value(interfaces.?.graph.parameter.?(self.builder, text(name), dims.ptr, @intCast(dims.len), initial.how, initial.a, initial.b, flags));
    }
    pub fn buffer(self: *const Graph, name: []const u8, kind: i32, dims: []const i64, values: []const f64) Value {
        return self.value(interfaces.?.graph.buffer.?(self.builder, text(name), kind, dims.ptr, @intCast(dims.len), values.ptr));
    }
    pub fn constant(self: *const Graph, kind: i32, dims: []const i64, values: []const f64) Value {
        return self.value(interfaces.?.graph.constant.?(self.builder, kind, dims.ptr, @intCast(dims.len), values.ptr));
    }
    pub fn fill(self: *const Graph, kind: i32, dims: []const i64, number_: f64) Value {
        return self.value(interfaces.?.graph.fill.?(self.builder, kind, dims.ptr, @intCast(dims.len), number_));
    }
    /// A scalar of the kind `float`.
    pub fn number(self: *const Graph, number_: f64) Value {
        return self.fill(abi.HK_KIND_FLOAT, &.{}, number_);
    }
    pub fn iota(self: *const Graph, length: i64, start: i64, step: i64) Value {
        return self.value(interfaces.?.graph.iota.?(self.builder, length, start, step));
    }
    pub fn positions(self: *const Graph, batch: i64, length: i64) Value {
        return self.value(interfaces.?.graph.positions.?(self.builder, batch, length));
    }
    /// Returns a number that all of positions() in rows of this length are below: from minor 2 of the host on.
    pub fn positionCount(self: *const Graph, length: i64) i64 {
        return interfaces.?.graph.position_count.?(self.builder, length);
    }
    pub fn stepScalar(self: *const Graph, name: []const u8, otherwise: f64) Value {
        return self.value(interfaces.?.graph.step_scalar.?(self.builder, text(name), otherwise));
    }
    pub fn offer(self: *const Graph, port: []const u8, offered: Value) void {
        interfaces.?.graph.offer.?(self.builder, text(port), offered.id);
    }
    pub fn hasPort(self: *const Graph, port: []const u8) bool {
        return interfaces.?.graph.has_port.?(self.builder, text(port)) != 0;
    }
    pub fn ask(self: *const Graph, port: []const u8) Value {
        return self.value(interfaces.?.graph.ask.?(self.builder, text(port)));
    }
    pub fn loss(self: *const Graph, name: []const u8, sum: Value, count: Value, weight: f64) void {
        interfaces.?.graph.loss.?(self.builder, text(name), sum.id, count.id, weight);
    }
    pub fn metric(self: *const Graph, name: []const u8, sum: Value, count: Value) void {
        interfaces.?.graph.metric.?(self.builder, text(name), sum.id, count.id);
    }
    pub fn scopeBegin(self: *const Graph, name: []const u8) void {
        interfaces.?.graph.scope_begin.?(self.builder, text(name));
    }
    pub fn scopeEnd(self: *const Graph) void {
        interfaces.?.graph.scope_end.?(self.builder);
    }
    pub fn recomputeBegin(self: *const Graph) void {
        interfaces.?.graph.recompute_begin.?(self.builder);
    }
    pub fn recomputeEnd(self: *const Graph) void {
        interfaces.?.graph.recompute_end.?(self.builder);
    }
    /// An error of the plugin's own, as std.fmt formats it.
    pub fn fail(self: *const Graph, comptime format: []const u8, arguments: anytype) void {
        var room: [512]u8 = undefined;
        const message = std.fmt.bufPrint(&room, format, arguments) catch room[0..];
        interfaces.?.graph.fail.?(self.builder, abi.HK_INVALID_ARGUMENT, text(message));
    }

    /// One operation by name; operations.zig has a function for each.
    pub fn emit(self: *const Graph, name: []const u8, revision: u32, inputs: []const Value, attributes: []const abi.hk_attribute, comptime count: usize) [count]Value {
        var outputs: [count]abi.hk_value = @splat(0);
        var room: [64]abi.hk_value = undefined;
        const ids = if (inputs.len <= room.len) room[0..inputs.len] else std.heap.page_allocator.alloc(abi.hk_value, inputs.len) catch {
            self.fail("out of memory", .{});
            return self.all(count, outputs);
        };
        defer if (inputs.len > room.len) std.heap.page_allocator.free(ids);
        for (ids, inputs) |*id, one| id.* = one.id;
        _ = interfaces.?.graph.emit.?(self.builder, text(name), revision, ids.ptr, @intCast(ids.len), attributes.ptr, @intCast(attributes.len), &outputs, count);
        return self.all(count, outputs);
    }

    fn value(self: *const Graph, id: abi.hk_value) Value {
        return .{ .graph = self, .id = id };
    }
    fn all(self: *const Graph, comptime count: usize, ids: [count]abi.hk_value) [count]Value {
        var values: [count]Value = undefined;
        for (&values, ids) |*one, id| one.* = self.value(id);
        return values;
    }
    fn code(self: *const Graph) i32 {
        return interfaces.?.graph.status.?(self.builder, null);
    }
};

// ---- architectures

pub const Offered = struct { interface: []const u8, id: []const u8, table: *const anyopaque };

/// An architecture of a type T with
///
///     pub fn init(config: Config) Error!T
///     pub fn build(self: *const T, g: *const Graph) void
///     pub fn head(self: *const T, g: *const Graph, id: []const u8) bool  // false: it has no such head
///     pub fn write(self: *const T, out: ConfigWriter) Error!void
pub fn architecture(comptime id: []const u8, comptime T: type) Offered {
    const Table = struct {
        const table = abi.hk_architecture{ .create = create, .destroy = destroy, .build = build, .build_head = buildHead, .write_config = write };

        fn create(config: ?*const abi.hk_config, self: [*c]?*anyopaque, failure: ?*abi.hk_error) callconv(.c) i32 {
            const read = T.init(.{ .raw = config.?, .failure = failure }) catch |problem| return codeOf(problem, failure);
            const made = std.heap.page_allocator.create(T) catch |problem| return codeOf(problem, failure);
            made.* = read;
            self[0] = made;
            return abi.HK_OK;
        }
        fn destroy(self: ?*anyopaque) callconv(.c) void {
            std.heap.page_allocator.destroy(of(self));
        }
        fn build(self: ?*anyopaque, builder: ?*abi.hk_builder, _: ?*abi.hk_error) callconv(.c) i32 {
            const graph = Graph{ .builder = builder.? };
            of(self).build(&graph);
            return graph.code();
        }
        fn buildHead(self: ?*anyopaque, builder: ?*abi.hk_builder, name: abi.hk_string, _: ?*abi.hk_error) callconv(.c) i32 {
            const graph = Graph{ .builder = builder.? };
            return if (of(self).head(&graph, bytes(name))) graph.code() else abi.HK_NOT_FOUND;
        }
        fn write(self: ?*anyopaque, out: ?*abi.hk_config_writer, failure: ?*abi.hk_error) callconv(.c) i32 {
            of(self).write(.{ .raw = out.?, .failure = failure }) catch |problem| return codeOf(problem, failure);
            return abi.HK_OK;
        }
        fn of(self: ?*anyopaque) *T {
            return @ptrCast(@alignCast(self.?));
        }
    };
    return .{ .interface = abi.HK_ARCHITECTURE_INTERFACE, .id = id, .table = &Table.table };
}

const codes = [_]struct { Error, i32 }{
    .{ Error.InvalidArgument, abi.HK_INVALID_ARGUMENT },
    .{ Error.NotFound, abi.HK_NOT_FOUND },
    .{ Error.Unsupported, abi.HK_UNSUPPORTED },
    .{ Error.FailedPrecondition, abi.HK_FAILED_PRECONDITION },
    .{ Error.OutOfMemory, abi.HK_OUT_OF_MEMORY },
    .{ Error.Io, abi.HK_IO },
    .{ Error.Corrupt, abi.HK_CORRUPT },
    .{ Error.DeviceLost, abi.HK_DEVICE_LOST },
    .{ Error.Cancelled, abi.HK_CANCELLED },
    .{ Error.Internal, abi.HK_INTERNAL },
};

fn errorOf(code: i32) Error {
    for (codes) |one| if (one[1] == code) return one[0];
    return Error.Internal;
}

fn codeOf(problem: Error, failure: ?*abi.hk_error) i32 {
    if (problem == Error.OutOfMemory) return fail(failure, abi.HK_OUT_OF_MEMORY, "out of memory", .{}); // an allocator has no message
    for (codes) |one| if (one[0] == problem) return one[1];
    return abi.HK_INTERNAL;
}

// ---- the export

/// Exports the plugin with what it offers. minor: of the oldest host that can run it, as the manifest's
/// "abi_minor_needed". Call it once, in a comptime block.
pub fn plugin(comptime minor: u32, comptime offers: []const Offered) void {
    const Entry = struct {
        const entry = abi.hk_plugin_entry{
            .magic = abi.HK_ENTRY_MAGIC,
            .struct_size = @sizeOf(abi.hk_plugin_entry),
            .abi_major = abi.HK_ABI_MAJOR,
            .abi_minor_needed = minor,
            .abi_minor_built = abi.HK_ABI_MINOR,
            .reserved = 0,
            .build_tag = .{ .data = null, .size = 0 },
            .init = init,
            .deinit = deinit,
            .get_interface = find,
        };

        fn get() callconv(.c) *const abi.hk_plugin_entry {
            return &entry;
        }
        fn init(host: [*c]const abi.hk_host, failure: ?*abi.hk_error) callconv(.c) i32 {
            const set = interfaceOf(abi.hk_error_interface, host, abi.HK_ERROR_INTERFACE) orelse return abi.HK_UNSUPPORTED;
            if (interfaces != null) { // [entry.8]
                set.set.?(failure, abi.HK_FAILED_PRECONDITION, text("the plugin serves another host in this process already"));
                return abi.HK_FAILED_PRECONDITION;
            }
            const config = interfaceOf(abi.hk_config_interface, host, abi.HK_CONFIG_INTERFACE);
            const graph = interfaceOf(abi.hk_graph_interface, host, abi.HK_GRAPH_INTERFACE);
            if (config == null or graph == null) {
                set.set.?(failure, abi.HK_UNSUPPORTED, text("the host lacks " ++ abi.HK_CONFIG_INTERFACE ++ " or " ++ abi.HK_GRAPH_INTERFACE));
                return abi.HK_UNSUPPORTED;
            }
            interfaces = .{
                .host = host,
                .failure = set,
                .config = config.?,
                .graph = graph.?,
                .tokenizer = interfaceOf(abi.hk_tokenizer_interface, host, abi.HK_TOKENIZER_INTERFACE),
                .log = interfaceOf(abi.hk_log_interface, host, abi.HK_LOG_INTERFACE),
            };
            return abi.HK_OK;
        }
        fn deinit() callconv(.c) void {
            interfaces = null;
        }
        fn find(interface: abi.hk_string, id: abi.hk_string) callconv(.c) ?*const anyopaque {
            inline for (offers) |offer|
                if (std.mem.eql(u8, bytes(interface), offer.interface) and std.mem.eql(u8, bytes(id), offer.id)) return offer.table;
            return null;
        }
    };
    @export(&Entry.get, .{ .name = "hekla_plugin_entry" });
}

fn interfaceOf(comptime T: type, host: [*c]const abi.hk_host, id: []const u8) ?*const T {
    return @ptrCast(@alignCast(host.*.get_interface.?(host, text(id))));
}
