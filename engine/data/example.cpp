#include "data/example.hpp"

namespace hekla::data {

const char* defect_name(Defect defect) {
    switch (defect) {
    case Defect::ragged: return "ragged";
    case Defect::empty: return "empty";
    case Defect::too_long: return "too long";
    case Defect::not_utf8: return "not UTF-8";
    case Defect::nul_byte: return "with NUL bytes";
    case Defect::missing_column: return "without a column";
    case Defect::malformed: return "malformed";
    }
    return "bad";
}

} // namespace hekla::data
