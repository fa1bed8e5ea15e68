/*
 * slot_parts.c - parts of a slot that lie on pages in shared buffers, as entries of work requests.
 *
 * Plain C: used by the lanes and by the unit tests. A backend's entries are accepted only within
 * the slot and the pool of buffers, so that a bug there does not expose other memory of this
 * process. The backend is responsible for the choice of the page and for its pin (layout.h).
 */
#include "slot_parts.h"

int
rf_parts_describe(const RfPart *parts, int count, const RfPartsPlace *place,
				  RfPartsEntries *entries)
{
	uint32_t	own = 0;
	uint32_t	pages = 0;
	int			used = 0;

	entries->count = entries->strided_count = 0;
	entries->bytes = entries->page_bytes = 0;
	if (count < 1 || count > RF_SLOT_PARTS)
		return 0;
	for (int i = 0; i < count; i++)
	{
		RfPart		part = parts[i];
		uint64_t	at = (uint64_t) part.buffer * place->page_size + part.offset;
		uint64_t	extent = part.length;

		if (part.own > place->room - own - pages ||
			part.length > place->room - own - pages - part.own ||
			used + (part.own > 0) + (part.length > 0) > place->max_entries)
			return 0;
		if (part.own > 0)
			entries->sge[used++] = (RfSge) {place->slot + own, part.own, place->slot_lkey};
		own += part.own;
		if (part.length == 0)
			continue;
		if (part.stride != 0)
		{
			if (part.element == 0 || part.stride < part.element ||
				part.length % part.element != 0 || entries->strided_count == place->max_strided)
				return 0;
			extent = (uint64_t) (part.length / part.element - 1) * part.stride + part.element;
			entries->strided[entries->strided_count++] = (RfStrided)
			{
				used, part.element,
					part.stride
			};
		}
		if (part.offset >= place->page_size || at > place->pages_size ||
			extent > place->pages_size - at)
			return 0;
		entries->sge[used++] = (RfSge) {place->pages + at, part.length, place->pages_lkey};
		pages += part.length;
	}
	entries->bytes = own + pages;
	entries->page_bytes = pages;
	entries->count = used;
	return used;
}
