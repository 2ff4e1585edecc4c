"""Chinese (Mandarin, simplified characters): no endings, but a measure word between a number and its noun."""

from __future__ import annotations

from typing import NamedTuple

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.languages.grammar import SentenceGrammar, Side
from visir.collections.scenes.palette import Draws


class ChineseNoun(NamedTuple):
    """A noun with its measure word."""

    word: str
    measure: str


NOUNS: dict[str, ChineseNoun] = {
    "dog": ChineseNoun("狗", "只"), "cat": ChineseNoun("猫", "只"), "rabbit": ChineseNoun("兔子", "只"),
    "pig": ChineseNoun("猪", "头"), "elephant": ChineseNoun("大象", "头"), "sheep": ChineseNoun("绵羊", "只"),
    "duck": ChineseNoun("鸭子", "只"), "turtle": ChineseNoun("乌龟", "只"), "snail": ChineseNoun("蜗牛", "只"),
    "giraffe": ChineseNoun("长颈鹿", "只"), "car": ChineseNoun("汽车", "辆"), "bus": ChineseNoun("公共汽车", "辆"),
    "truck": ChineseNoun("卡车", "辆"), "tractor": ChineseNoun("拖拉机", "辆"), "train": ChineseNoun("火车", "列"),
    "boat": ChineseNoun("船", "艘"), "rocket": ChineseNoun("火箭", "枚"), "tent": ChineseNoun("帐篷", "顶"),
    "armchair": ChineseNoun("扶手椅", "把"), "teapot": ChineseNoun("茶壶", "把"),
    "robot": ChineseNoun("机器人", "个"), "umbrella": ChineseNoun("伞", "把"), "ball": ChineseNoun("球", "个"),
    "bucket": ChineseNoun("水桶", "个"), "present": ChineseNoun("礼物", "份"), "flowerpot": ChineseNoun("花盆", "个"),
    "mug": ChineseNoun("杯子", "个"), "lantern": ChineseNoun("灯笼", "盏"), "hat": ChineseNoun("帽子", "顶"),
    "drum": ChineseNoun("鼓", "面"), "mushroom": ChineseNoun("蘑菇", "朵"), "suitcase": ChineseNoun("手提箱", "个"),
    "house": ChineseNoun("房子", "座"), "church": ChineseNoun("教堂", "座"), "castle": ChineseNoun("城堡", "座"),
    "windmill": ChineseNoun("风车", "座"), "lighthouse": ChineseNoun("灯塔", "座"),
    "Ferris wheel": ChineseNoun("摩天轮", "座"), "circus tent": ChineseNoun("马戏团帐篷", "顶"),
    "water tower": ChineseNoun("水塔", "座"), "bird": ChineseNoun("鸟", "只"), "butterfly": ChineseNoun("蝴蝶", "只"),
    "balloon": ChineseNoun("气球", "个"), "kite": ChineseNoun("风筝", "只"),
    "paper plane": ChineseNoun("纸飞机", "架"), "bee": ChineseNoun("蜜蜂", "只"),
}  # fmt: skip
_COLOURS = {
    "red": "红色", "orange": "橙色", "yellow": "黄色", "green": "绿色", "blue": "蓝色", "purple": "紫色",
    "pink": "粉色", "white": "白色",
}  # fmt: skip
_SIZES = {"small": "很小", "medium": "不大不小", "large": "很大"}
_PATTERNS = {"plain": "没有花纹", "striped": "带条纹", "spotted": "带圆点", "checked": "带格子"}
_PLACES = {
    "beach": "沙滩上", "meadow": "草地上", "desert": "沙漠里", "street": "城市的街道上", "mountains": "山里",
    "forest": "森林里", "lake": "湖边", "farm": "农场里",
}  # fmt: skip
_RELATIONS = {"left of": "左边", "right of": "右边", "in front of": "前面", "on": "上面"}
_SIDES: dict[Side, str] = {"left": "左边", "right": "右边"}
_FLIGHT = {"balloon": "飘"}
_NUMBERS = {1: "一", 2: "两", 3: "三", 4: "四", 5: "五"}
_WEATHER = {"clear": "晴朗", "cloudy": "多云", "rainy": "下雨", "snowy": "下雪", "foggy": "有雾", "stormy": "雷雨"}
_TIMES = {"day": "白天", "sunset": "傍晚", "night": "夜晚"}
_POSITIONS = {"left": "画面左侧", "middle": "画面中间", "right": "画面右侧"}
_WAYS = {
    "looks": (
        "{place}有{thing}，它{size}，而且{pattern}",
        "图中{place}有{thing}，{size}，{pattern}",
        "{thing}在{place}，{size}，{pattern}",
    ),
    "company": (
        "{place}有{thing}，它的{relation}有{other}",
        "{place}，{other}在{thing}的{relation}",
        "{thing}在{place}，{other}在它的{relation}",
    ),
    "above": (
        "{place}，{flyers}在{thing}的上方{fly}",
        "{thing}在{place}，天上有{flyers}",
        "{place}有{thing}，它的上方有{flyers}在{fly}",
    ),
    "weather": ("在一个{when}，{thing}在{place}", "{when}，{place}有{thing}", "{place}有{thing}，这是一个{when}"),
    "layout": (
        "{where}，{thing}在{place}，远处有{landmark}",
        "{place}，{thing}在{where}，远处可以看到{landmark}",
        "远处有{landmark}，{where}有{thing}在{place}",
    ),
    "beside": ("{place}，{first}在{of_second}{side}", "{place}，{of_second}{side}有{first}"),
    "beside_at": ("{where}，{thing}在{place}，它的{relation}有{other}",),
    "contrast": (
        "{place}的{the_thing}是{so}的，不是{not_so}的",
        "{place}的{the_thing}不是{not_so}的，而是{so}的",
    ),
    "without_flyer": ("{place}有{thing}，它的上方没有{absent}", "{thing}在{place}，天上没有{absent}"),
    "without_companion": ("{place}有{thing}，但是没有{absent}", "{thing}在{place}，图中没有{absent}"),
}


def phrase(noun: ChineseNoun, colour: str = "", number: int = 1) -> str:
    """A noun with its number, measure word and colour."""
    return f"{_NUMBERS[number]}{noun.measure}{f'{_COLOURS[colour]}的' if colour else ''}{noun.word}"


class Chinese(SentenceGrammar):
    """Chinese."""

    code = "zh"
    title = "Chinese"
    ways = _WAYS
    sides = _SIDES

    def finish(self, text: str) -> str:
        return f"{text}。"

    def words(self, scene: Scene) -> dict[str, str]:
        thing = phrase(NOUNS[scene.subject], scene.colour)
        other = phrase(NOUNS[scene.companion], scene.companion_colour)
        return {
            "thing": thing,
            "of_thing": f"{thing}的",
            "the_thing": NOUNS[scene.subject].word,
            "size": _SIZES[scene.size],
            "pattern": _PATTERNS[scene.pattern],
            "place": _PLACES[scene.place],
            "other": other,
            "of_other": f"{other}的",
            "relation": _RELATIONS[scene.relation],
            "flyers": phrase(NOUNS[scene.flyer], number=scene.flyers),
            "fly": _FLIGHT.get(scene.flyer, "飞"),
            "when": f"{_WEATHER[scene.weather]}的{_TIMES[scene.time]}",
            "where": _POSITIONS[scene.position],
            "landmark": phrase(NOUNS[scene.landmark]),
        }

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        return self.say("contrast", scene, draws, so=_COLOURS[colour], not_so=_COLOURS[other])

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        return self.say("without_flyer", scene, draws, absent=NOUNS[flyer].word)

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        return self.say("without_companion", scene, draws, absent=NOUNS[companion].word)
